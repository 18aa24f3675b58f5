#include "gpu/model/text/pre_tokenizer.hpp"

#include <string>

#include "gpu/model/text/pre_tokenizer_classes.hpp"

namespace troupe::gpu {
namespace {

bool is_line_end(char c) {
  return c == '\r' || c == '\n';
}

/// The length of one of 's 't 're 've 'm 'll 'd at `at`, or 0. Case-blind, the long s (U+017F) is
/// an s too, as Unicode folds it; no other letter folds to one of these.
std::size_t contraction(std::string_view text, std::size_t at, bool any_case) {
  if (text[at] != '\'') return 0;
  const auto rest = text.substr(at);
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (rest.size() < ending.size()) continue;
    std::size_t same = 1;
    while (same < ending.size() &&
           (rest[same] == ending[same] ||
            (any_case && rest[same] == static_cast<char>(ending[same] - 'a' + 'A'))))
      ++same;
    if (same == ending.size()) return same;
  }
  // Only where the rule ignores case: the regex engines these rules come from fold U+017F to s.
  constexpr std::string_view long_s = "'\xC5\xBF";
  return any_case && rest.starts_with(long_s) ? long_s.size() : 0;
}

struct named_rule {
  std::string_view name;
  pre_tokenizer rule;
};

// Only names whose rule is exactly this one; a near miss would answer other ids without a word.
constexpr named_rule rules[] = {
    {"deepseek-r1-qwen", {piece_rule::qwen2, false, false}},
    {"gpt-2", {piece_rule::gpt2, false, false}},
    {"llama-bpe", {piece_rule::llama3, true, true}},
    {"llama-v3", {piece_rule::llama3, true, true}},
    {"llama3", {piece_rule::llama3, true, true}},
    {"qwen2", {piece_rule::qwen2, false, false}},
    {"smollm", {piece_rule::smollm, false, false}},
};

}  // namespace

void piece_scan::run_from(std::size_t at, char_class kind, bool with_line_ends) {
  at_ = at;
  kind_ = kind;
  with_line_ends_ = with_line_ends;
  stage_ = stage::run;
}

/// GPT-2's rule:
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// `lone_numbers`: every numeric character is a piece of its own first, and what lies between goes
/// through the rule as if it stood alone.
void piece_scan::start_gpt2(std::string_view text, bool lone_numbers) {
  if (const auto length = contraction(text, at_, false); length != 0) {
    at_ += length;
    stage_ = stage::found;
    return;
  }
  const auto first = look_at(text, at_);
  if (lone_numbers && first.kind == char_class::number) {
    at_ += first.length;
    stage_ = stage::found;
    return;
  }
  if (first.kind != char_class::space) return run_from(at_, first.kind);
  // A space leads the piece behind it; any other blank does not.
  if (text[at_] == ' ' && at_ + 1 < text.size()) {
    const auto second = look_at(text, at_ + 1);
    const bool alone = lone_numbers && second.kind == char_class::number;
    if (second.kind != char_class::space && !alone) return run_from(at_ + 1, second.kind);
  }
  stage_ = stage::blanks;
}

/// Llama 3's rule, and with `digits` = 1 Qwen 2's:
///   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}
///   | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
void piece_scan::start_llama3(std::string_view text, int digits) {
  if (const auto length = contraction(text, at_, true); length != 0) {
    at_ += length;
    stage_ = stage::found;
    return;
  }
  const auto first = look_at(text, at_);
  const auto second_at = at_ + first.length;
  if (first.kind == char_class::letter) return run_from(at_, char_class::letter);
  if (first.kind == char_class::number) {
    // From the left: 12345 is 123 and 45 under Llama 3, as its regex takes them.
    for (int taken = 0; taken < digits && at_ < text.size(); ++taken) {
      const auto next = look_at(text, at_);
      if (next.kind != char_class::number) break;
      at_ += next.length;
    }
    stage_ = stage::found;
    return;
  }
  // [^\r\n\p{L}\p{N}]? : one blank or sign may lead a word, but a line end never does.
  const auto second =
      second_at < text.size() ? look_at(text, second_at) : scanned_char{char_class::space, 0};
  if (second.kind == char_class::letter && !is_line_end(text[at_]))
    return run_from(second_at, char_class::letter);
  if (first.kind == char_class::other || (text[at_] == ' ' && second.kind == char_class::other))
    return run_from(second_at, char_class::other, true);
  stage_ = stage::blanks;
}

void piece_scan::look_at_run(std::string_view text, std::size_t& budget) {
  for (; stage_ == stage::run; --budget) {
    if (budget == 0) return;
    const auto next = at_ < text.size() ? look_at(text, at_) : scanned_char{};
    if (next.length == 0 || next.kind != kind_)
      stage_ = with_line_ends_ ? stage::line_ends : stage::found;
    else
      at_ += next.length;
  }
}

/// \s+(?!\S)|\s+ : all of it at the end of the text, else all but the last character (which may
/// lead the next piece), else that one character. Llama 3's \s*[\r\n]+ comes first.
void piece_scan::look_at_blanks(piece_rule rule, std::string_view text, std::size_t& budget) {
  for (; budget > 0; --budget) {
    const auto next = at_ < text.size() ? look_at(text, at_) : scanned_char{};
    if (next.length != 0 && next.kind == char_class::space) {
      last_ = at_;
      if (is_line_end(text[at_])) after_line_ = at_ + 1;
      at_ += next.length;
      continue;
    }
    stage_ = stage::found;
    const bool to_the_end =
        next.length == 0 || (rule == piece_rule::smollm && next.kind == char_class::number);
    if ((rule == piece_rule::llama3 || rule == piece_rule::qwen2) && after_line_ != 0)
      at_ = after_line_;
    else if (!to_the_end && last_ != begin_)
      at_ = last_;
    return;
  }
}

bool piece_scan::advance(piece_rule rule, std::string_view text, std::size_t& budget) {
  if (stage_ == stage::fresh && budget > 0) {
    --budget;
    switch (rule) {
      case piece_rule::gpt2:
        start_gpt2(text, false);
        break;
      case piece_rule::smollm:
        start_gpt2(text, true);
        break;
      case piece_rule::llama3:
        start_llama3(text, 3);
        break;
      case piece_rule::qwen2:
        start_llama3(text, 1);
        break;
    }
  }
  if (stage_ == stage::run) look_at_run(text, budget);
  // [\r\n]* behind signs: code often ends a line with them, and one token covers both.
  for (; stage_ == stage::line_ends && budget > 0; --budget) {
    if (at_ < text.size() && is_line_end(text[at_]))
      ++at_;
    else
      stage_ = stage::found;
  }
  if (stage_ == stage::blanks) look_at_blanks(rule, text, budget);
  return stage_ == stage::found;
}

const pre_tokenizer* find_pre_tokenizer(std::string_view name) {
  for (const auto& known : rules) {
    if (known.name == name) return &known.rule;
  }
  return nullptr;
}

std::string_view known_pre_tokenizers() {
  static const auto names = [] {
    std::string out;
    for (const auto& known : rules) {
      if (!out.empty()) out += ", ";
      out.append("\"").append(known.name).append("\"");
    }
    return out;
  }();
  return names;
}

}  // namespace troupe::gpu
