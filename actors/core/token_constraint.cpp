#include "actors/core/token_constraint.hpp"

#include <algorithm>
#include <utility>

namespace troupe::core {

namespace {

/// The state is the end of the answer, as long as the longest prefix that a forbidden word has.
class word_constraint final : public constraint_rules {
 public:
  explicit word_constraint(word_rules rules) : words_(std::move(rules.forbidden)) {
    std::erase_if(words_, [](const auto& word) { return word.empty(); });
    for (const auto& word : words_) longest_prefix_ = std::max(longest_prefix_, word.size() - 1);
    if (rules.allowed.empty()) return;
    const auto last = *std::max_element(rules.allowed.begin(), rules.allowed.end());
    std::vector<std::uint64_t> bits(static_cast<std::size_t>(last) / 64 + 1);
    for (const auto token : rules.allowed)
      bits[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
    allowed_ = bits;
  }

  void advance(state& end, token_id token) const override {
    if (longest_prefix_ == 0) return;
    if (end.size() == longest_prefix_) end.erase(end.begin());
    end.push_back(token);
  }

  // A word is forbidden by its last token, where the answer ends with all the others of it.
  token_mask mask(const state& end) const override {
    token_mask out;
    out.allowed = allowed_;
    for (const auto& word : words_) {
      const auto prefix = word.size() - 1;
      if (prefix > end.size() || !std::equal(word.begin(), word.end() - 1,
                                             end.end() - static_cast<std::ptrdiff_t>(prefix)))
        continue;
      out.forbidden.push_back(word.back());
    }
    std::sort(out.forbidden.begin(), out.forbidden.end());
    out.forbidden.erase(std::unique(out.forbidden.begin(), out.forbidden.end()),
                        out.forbidden.end());
    return out;
  }

 private:
  std::vector<std::vector<token_id>> words_;
  std::size_t longest_prefix_ = 0;
  token_bits allowed_;
};

}  // namespace

token_constraint compile(word_rules rules) {
  const bool none =
      rules.allowed.empty() && std::all_of(rules.forbidden.begin(), rules.forbidden.end(),
                                           [](const auto& word) { return word.empty(); });
  return none ? token_constraint()
              : token_constraint(std::make_shared<word_constraint>(std::move(rules)));
}

}  // namespace troupe::core
