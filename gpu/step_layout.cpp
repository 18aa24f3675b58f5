#include "gpu/step_layout.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace troupe::gpu {

namespace {

class slice_checker {
 public:
  slice_checker(const step_batch& batch, const step_limits& limits)
      : batch_(batch), limits_(limits) {}

  void check() {
    for (index_ = 0; index_ < batch_.slices.size(); ++index_) {
      check_tokens();
      check_blocks();
      check_wishes();
      check_sampling();
    }
    // Who writes which block is known only now.
    for (index_ = 0; index_ < batch_.slices.size(); ++index_) {
      for (const copied_block& copy : slice().copies) targets_.insert(copy.to);
    }
    for (index_ = 0; index_ < batch_.slices.size(); ++index_) check_copies();
  }

 private:
  const sequence_slice& slice() const { return batch_.slices[index_]; }

  [[noreturn]] void refuse(const std::string& what) const {
    throw batch_error("step " + std::to_string(batch_.step) + ", slice " + std::to_string(index_) +
                      ": " + what);
  }

  void check_token(const char* field, std::size_t at, token_id token, token_id lowest) const {
    if (token >= lowest && token < static_cast<std::int64_t>(limits_.vocab)) return;
    refuse(std::string(field) + "[" + std::to_string(at) + "] is " + std::to_string(token) +
           ", the vocabulary has " + std::to_string(limits_.vocab));
  }

  void check_tokens() const {
    const auto& tokens = slice().tokens;
    if (tokens.empty()) refuse("tokens is empty");
    for (std::size_t i = 0; i < tokens.size(); ++i) check_token("tokens", i, tokens[i], 0);
    const std::uint64_t end = std::uint64_t{slice().start} + tokens.size();
    if (end > limits_.context) {
      refuse("start + tokens is " + std::to_string(end) + ", the context has " +
             std::to_string(limits_.context));
    }
  }

  void check_blocks() {
    const auto& blocks = slice().blocks;
    const std::size_t end = slice().start + slice().tokens.size();
    const std::size_t needed = (end + limits_.block_size - 1) / limits_.block_size;
    if (blocks.size() < needed) {
      refuse("blocks has " + std::to_string(blocks.size()) + " entries, start + tokens of " +
             std::to_string(end) + " need " + std::to_string(needed));
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i] < limits_.num_blocks) continue;
      refuse("blocks[" + std::to_string(i) + "] is " + std::to_string(blocks[i]) +
             ", the pool has " + std::to_string(limits_.num_blocks));
    }
    for (std::size_t i = slice().start / limits_.block_size; i < needed; ++i) {
      const auto [at, added] = writers_.emplace(blocks[i], index_);
      if (added) continue;
      refuse("blocks[" + std::to_string(i) + "] is " + std::to_string(blocks[i]) +
             ", which slice " + std::to_string(at->second) + " writes in the same step");
    }
  }

  /// A step's copies may be carried out in any order, or at the same time.
  void check_copies() {
    const auto& copies = slice().copies;
    for (std::size_t i = 0; i < copies.size(); ++i) {
      const std::uint32_t from = copies[i].from, to = copies[i].to;
      const auto refuse_copy = [&](const std::string& what) {
        refuse("copies[" + std::to_string(i) + "] from " + std::to_string(from) + " to " +
               std::to_string(to) + ": " + what);
      };
      if (from >= limits_.num_blocks) {
        refuse_copy("the pool has " + std::to_string(limits_.num_blocks));
      }
      const auto writer = writers_.find(to);
      if (writer == writers_.end() || writer->second != index_) {
        refuse_copy("the slice does not write that block in this step");
      }
      if (targets_.contains(from)) refuse_copy("the source is the target of a copy in this step");
      if (!filled_.insert(to).second) refuse_copy("the target is filled twice");
    }
  }

  void check_wishes() const {
    const sequence_slice& s = slice();
    const auto top = s.decode->top_logprobs;
    if (top < -1 || top > 20) {
      refuse("top_logprobs is " + std::to_string(top) + ", allowed are -1 to 20");
    }
    if (s.allowed.size() > (limits_.vocab + 63) / 64) {
      refuse("allowed has bits for " + std::to_string(s.allowed.size() * 64) +
             " tokens, the vocabulary has " + std::to_string(limits_.vocab));
    }
    for (std::size_t i = 0; i < s.suppressed.size(); ++i) {
      check_token("suppressed", i, s.suppressed[i], 0);
    }
    if (!s.score_targets.empty() && s.score_targets.size() != s.tokens.size()) {
      refuse("score_targets has " + std::to_string(s.score_targets.size()) + " entries, tokens " +
             std::to_string(s.tokens.size()));
    }
    for (std::size_t i = 0; i < s.score_targets.size(); ++i) {
      check_token("score_targets", i, s.score_targets[i], -1);
    }
  }

  /// The sampler indexes rows with these tokens.
  void check_sampling() const {
    const sequence_slice& s = slice();
    const auto& confidence = s.decode->confidence;
    if (confidence && confidence->top_k > 20) {
      refuse("confidence.top_k is " + std::to_string(confidence->top_k) + ", allowed are 0 to 20");
    }
    const auto& sampling = s.decode->sampling;
    for (std::size_t i = 0; i < sampling.logit_bias.size(); ++i) {
      check_token("logit_bias", i, sampling.logit_bias[i].first, 0);
    }
    for (std::size_t i = 0; i < s.history.size(); ++i) check_token("history", i, s.history[i], 0);
    if (s.history_prompt > s.history.size()) {
      refuse("history_prompt is " + std::to_string(s.history_prompt) + ", history has " +
             std::to_string(s.history.size()) + " entries");
    }
    const std::size_t before = s.start + s.tokens.size();
    if (s.sample && sampling.needs_history() && s.history.size() != before) {
      refuse("history has " + std::to_string(s.history.size()) +
             " entries, before the sampled token are " + std::to_string(before));
    }
  }

  const step_batch& batch_;
  const step_limits& limits_;
  std::size_t index_ = 0;
  std::unordered_map<std::uint32_t, std::size_t> writers_;  // block to slice
  std::unordered_set<std::uint32_t> targets_, filled_;      // of copies: all, and those checked
};

void add_row(step_segment& segment, const sequence_slice& slice, std::uint32_t index,
             std::uint32_t i, std::uint32_t block_size) {
  const std::uint32_t row = static_cast<std::uint32_t>(segment.tokens.size());
  const std::uint32_t position = slice.start + i;
  segment.tokens.push_back(slice.tokens[i]);
  segment.positions.push_back(position);
  segment.blocks.push_back(slice.blocks[position / block_size]);
  if (segment.runs.empty() || segment.runs.back().slice != index) {
    segment.runs.push_back({index, row, 0, position});
  }
  ++segment.runs.back().rows;
  const token_id target = slice.score_targets.empty() ? -1 : slice.score_targets[i];
  const bool sample = slice.sample && i + 1 == slice.tokens.size();
  if (target >= 0 || sample) segment.wanted.push_back({index, row, position, target, sample});
}

}  // namespace

std::unique_ptr<laid_out_step> lay_out(step_batch batch, const step_limits& limits) {
  slice_checker(batch, limits).check();
  auto step = std::make_unique<laid_out_step>();
  step->batch = std::move(batch);
  for (std::uint32_t s = 0; s < step->batch.slices.size(); ++s) {
    const sequence_slice& slice = step->batch.slices[s];
    step->copies.insert(step->copies.end(), slice.copies.begin(), slice.copies.end());
    for (std::uint32_t i = 0; i < slice.tokens.size(); ++i) {
      if (step->segments.empty() || step->segments.back().tokens.size() == limits.segment_rows) {
        step->segments.emplace_back();
      }
      add_row(step->segments.back(), slice, s, i, limits.block_size);
    }
  }
  return step;
}

}  // namespace troupe::gpu
