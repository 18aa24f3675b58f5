#include "gpu/step_layout.hpp"

#include <catch2/catch.hpp>
#include <functional>

using namespace troupe;
using namespace troupe::gpu;

namespace {

const step_limits limits{16, 10, 100, 128, 32};

step_batch good_batch() {
  sequence_slice a, b;
  a.start = 14;
  a.tokens = {1, 2, 3};
  a.blocks = {4, 5};
  a.sample = true;
  b.tokens = std::vector<token_id>(40, 9);
  b.blocks = {0, 1, 2};
  b.score_targets = std::vector<token_id>(40, -1);
  b.score_targets[35] = 7;
  step_batch batch;
  batch.step = 3;
  batch.slices = {a, b};
  return batch;
}

std::string refusal(const std::function<void(step_batch&)>& spoil) {
  step_batch batch = good_batch();
  spoil(batch);
  try {
    lay_out(batch, limits);
  } catch (const batch_error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("step_layout: rows are cut into segments with positions, blocks and wanted rows",
          "[gpu]") {
  const auto step = lay_out(good_batch(), limits);
  REQUIRE(step->segments.size() == 2);
  const step_segment& first = step->segments[0];
  REQUIRE(first.tokens.size() == 32);
  CHECK(first.positions[0] == 14);
  CHECK(first.blocks[1] == 4);
  CHECK(first.blocks[2] == 5);
  REQUIRE(first.runs.size() == 2);
  CHECK(first.runs[1].row == 3);
  CHECK(first.runs[1].rows == 29);
  REQUIRE(first.wanted.size() == 1);
  CHECK(first.wanted[0].row == 2);
  CHECK(first.wanted[0].sample);
  const step_segment& second = step->segments[1];
  REQUIRE(second.runs.size() == 1);
  CHECK(second.runs[0].position == 29);
  CHECK(second.runs[0].rows == 11);
  REQUIRE(second.wanted.size() == 1);
  CHECK(second.wanted[0].position == 35);
  CHECK(second.wanted[0].target == 7);
}

TEST_CASE("step_layout: a broken batch is refused naming slice, field and value", "[gpu]") {
  using Catch::Matchers::Contains;
  CHECK(refusal([](step_batch&) {}) == "accepted");
  CHECK_THAT(refusal([](step_batch& b) { b.slices[1].tokens.clear(); }),
             Contains("slice 1: tokens is empty"));
  CHECK_THAT(refusal([](step_batch& b) { b.slices[0].tokens[2] = 100; }),
             Contains("slice 0: tokens[2] is 100"));
  CHECK_THAT(refusal([](step_batch& b) { b.slices[0].tokens[0] = -1; }),
             Contains("tokens[0] is -1"));
  CHECK_THAT(refusal([](step_batch& b) { b.slices[0].blocks = {1}; }),
             Contains("blocks has 1 entries"));
  CHECK_THAT(refusal([](step_batch& b) {
               b.slices[1].blocks = {0, 10, 2};
             }),
             Contains("slice 1: blocks[1] is 10"));
  CHECK_THAT(refusal([](step_batch& b) {
               b.slices[1].blocks = {0, 1, 5};
             }),
             Contains("which slice 0 writes"));
  CHECK_THAT(refusal([](step_batch& b) {
               b.slices[1].blocks = {0, 1, 0};
             }),
             Contains("which slice 1 writes"));
  CHECK_THAT(refusal([](step_batch& b) {
               b.slices[0].start = 126;
               b.slices[0].blocks = std::vector<std::uint32_t>(9, 4);
             }),
             Contains("start + tokens is 129"));
  CHECK_THAT(refusal([](step_batch& b) { b.slices[0].start = 4294967295u; }),
             Contains("start + tokens is 4294967298"));
  CHECK_THAT(refusal([](step_batch& b) { b.slices[0].decode.edit().top_logprobs = 21; }),
             Contains("top_logprobs is 21"));
  CHECK_THAT(refusal([](step_batch& b) {
               b.slices[0].suppressed = {5, 100};
             }),
             Contains("suppressed[1] is 100"));
  CHECK_THAT(refusal([](step_batch& b) {
               b.slices[0].allowed = {1, 2, 3};
             }),
             Contains("allowed has bits for 192 tokens, the vocabulary has 100"));
  CHECK_THAT(refusal([](step_batch& b) { b.slices[1].score_targets.pop_back(); }),
             Contains("score_targets has 39 entries"));
  CHECK_THAT(refusal([](step_batch& b) { b.slices[1].score_targets[3] = 100; }),
             Contains("score_targets[3] is 100"));
}

TEST_CASE("step_layout: block copies of all slices are gathered", "[gpu]") {
  step_batch batch = good_batch();
  batch.slices[0].copies = {{7, 4}};
  // Slice 0 writes block 5 in this step; what is copied is what it held before.
  batch.slices[1].copies = {{7, 0}, {5, 2}};
  const auto step = lay_out(batch, limits);
  CHECK(step->copies == std::vector<copied_block>{{7, 4}, {7, 0}, {5, 2}});
}

TEST_CASE("step_layout: block copies whose order would count, or that reach outside, are refused",
          "[gpu]") {
  using Catch::Matchers::Contains;
  const auto with_copies = [](std::vector<copied_block> copies) {
    return refusal([&](step_batch& b) { b.slices[1].copies = copies; });
  };
  CHECK(with_copies({{7, 0}}) == "accepted");
  CHECK_THAT(with_copies({{7, 0}, {10, 1}}),
             Contains("slice 1: copies[1] from 10 to 1: the pool has 10"));
  CHECK_THAT(with_copies({{7, 4}}), Contains("from 7 to 4: the slice does not write that block"));
  CHECK_THAT(with_copies({{7, 6}}), Contains("from 7 to 6: the slice does not write that block"));
  CHECK_THAT(with_copies({{7, 0}, {0, 1}}),
             Contains("copies[1] from 0 to 1: the source is the target of a copy"));
  CHECK_THAT(with_copies({{2, 2}}), Contains("the source is the target of a copy"));
  CHECK_THAT(with_copies({{7, 0}, {8, 0}}), Contains("the target is filled twice"));
  // A table entry below `start` is only read, so nothing may be copied there.
  CHECK_THAT(refusal([](step_batch& b) {
               b.slices[0].start = 16;
               b.slices[0].copies = {{7, 4}};
             }),
             Contains("the slice does not write that block"));
}

TEST_CASE("step_layout: what the sampler would index with is checked", "[gpu]") {
  using Catch::Matchers::Contains;
  const auto with_history = [](std::vector<token_id> history, std::uint32_t prompt) {
    return refusal([&](step_batch& b) {
      b.slices[0].decode.edit().sampling.presence_penalty = 1;
      b.slices[0].history = history;
      b.slices[0].history_prompt = prompt;
    });
  };
  const std::vector<token_id> history(17, 5);  // start 14 and three tokens
  CHECK(with_history(history, 17) == "accepted");
  CHECK_THAT(with_history(history, 18), Contains("history_prompt is 18, history has 17"));
  CHECK_THAT(with_history(std::vector<token_id>(17, 100), 0), Contains("history[0] is 100"));
  CHECK_THAT(with_history(std::vector<token_id>(17, -1), 0), Contains("history[0] is -1"));
  CHECK_THAT(with_history({}, 0),
             Contains("history has 0 entries, before the sampled token are 17"));
  CHECK_THAT(refusal([](step_batch& b) {
               b.slices[0].decode.edit().sampling.logit_bias = {{1, 0.5f}, {100, 1.0f}};
             }),
             Contains("logit_bias[1] is 100"));
  CHECK_THAT(refusal([](step_batch& b) {
               b.slices[0].decode.edit().confidence = troupe::confidence_stop{21, 0.5f, 1};
             }),
             Contains("confidence.top_k is 21"));
}

TEST_CASE("step_layout: a block shared for reading by two slices is accepted", "[gpu]") {
  step_batch batch = good_batch();
  batch.slices[1].start = 16;
  batch.slices[1].tokens.resize(10);
  batch.slices[1].score_targets.clear();
  batch.slices[1].blocks = {3, 1};
  batch.slices[0].start = 16;
  batch.slices[0].blocks = {3, 5};
  CHECK(lay_out(batch, limits)->segments.size() == 1);
}
