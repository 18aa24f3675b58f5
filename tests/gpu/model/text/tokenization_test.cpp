#include "gpu/model/text/tokenization.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/smollm2.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe::gpu;
using namespace troupe::test;
using troupe::token_id;

namespace {

/// The vocabulary of all bytes and a few merges, under one rule.
tokenizer small(const std::string& rule) {
  const auto vocabulary = tiny_vocabulary_of_bytes();
  gguf_writer file;
  file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", rule);
  file.texts("tokenizer.ggml.tokens", vocabulary.tokens)
      .i32s("tokenizer.ggml.token_type", vocabulary.kinds)
      .texts("tokenizer.ggml.merges", vocabulary.merges)
      .boolean("tokenizer.ggml.add_bos_token", false);
  const temporary_file source(file.bytes());
  return tokenizer::from_gguf(gguf_file::open(source.path()));
}

std::string repeated(std::string_view text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

std::string some_text(std::mt19937_64& random) {
  constexpr const char* parts[] = {
      "a",     "the",      " ",      "\n",           "\r\n",
      "'s",    "'S",       "'ll",    "\xC5\xBF",     "7",
      "42",    "\xCC\x81", "!?",     "\xE6\x97\xA5", "\xF0\x9F\x98\x80",
      "\xFF",  "\xE6\x97", "\x01",   "<|im_start|>", "<|im_end|>",
      "<|im_", "hello",    " world", "\xE2\x80\xA8"};
  std::string out;
  for (auto count = random() % 30; count > 0; --count) {
    const std::string_view part = parts[random() % std::size(parts)];
    out += repeated(part, random() % 10 == 0 ? 1 + random() % 200 : 1);
  }
  return out;
}

/// In slices of at most `budget`; what is certain on the way must be true in the end.
std::vector<token_id> sliced(tokenization work, std::mt19937_64& random, std::size_t budget) {
  std::size_t certain = 0, before = 0;
  bool grows = true;
  while (!work.advance(1 + random() % budget)) {
    grows = grows && work.at_least() >= before;
    certain = before = work.at_least();
  }
  auto out = work.take();
  CHECK(grows);
  CHECK(certain <= out.size());
  return out;
}

}  // namespace

TEST_CASE("tokenization: slices of any size give the tokens of the whole") {
  std::mt19937_64 random(11);
  for (const std::string rule : {"gpt-2", "llama3", "qwen2", "smollm"}) {
    const auto vocabulary = small(rule);
    for (int round = 0; round < 400; ++round) {
      const auto text = some_text(random);
      const bool special = round % 2 == 0;
      INFO(rule << ", round " << round);
      REQUIRE(sliced({vocabulary, text, special}, random, 1 + round % 40) ==
              vocabulary.encode(text, special));
    }
  }
}

TEST_CASE("tokenization: the reference's strings have the reference's ids in slices too") {
  std::ifstream in(troupe::test::source_dir() + "/tests/data/smollm2-135m-instruct-q4_1.json");
  std::mt19937_64 random(5);
  const auto reference = nlohmann::json::parse(in);
  for (const auto& entry : reference["tokenizer"]) {
    const auto text = entry["text"].get<std::string>();
    INFO(text);
    CHECK(sliced({smollm2(), text, true}, random, 8) == entry["ids"].get<std::vector<token_id>>());
  }
}

TEST_CASE("tokenization: spans in slices parse special tokens where they may be parsed") {
  std::mt19937_64 random(23);
  for (int round = 0; round < 400; ++round) {
    std::vector<template_span> spans;
    for (auto count = random() % 6; count > 0; --count)
      spans.push_back({some_text(random), random() % 2 == 0});
    INFO("round " << round);
    REQUIRE(sliced({smollm2(), spans}, random, 1 + round % 60) == smollm2().encode(spans));
  }
}

TEST_CASE("C206 tokenization: a giant word of any kind is done in slices of bounded time") {
  std::mt19937_64 random(2);
  std::string letters;
  while (letters.size() < 300'000) letters += static_cast<char>('a' + random() % 26);
  for (const auto& text :
       {repeated("a", 300'000), repeated(" ", 300'000), repeated("\xF0\x9F\x98\x80", 75'000),
        repeated(" \n", 150'000), repeated("7", 300'000), repeated("<|im_star", 30'000), letters}) {
    tokenization work(smollm2(), text, true);
    std::vector<double> took;
    for (bool done = false; !done;) {
      const auto start = std::chrono::steady_clock::now();
      done = work.advance(65536);
      took.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
              .count());
    }
    INFO("'" << text.substr(0, 4) << "'");
    CHECK(work.take() == smollm2().encode(text, true));
    CHECK(took.size() >= 10);
    // About a millisecond each; the margin is for sanitizers and busy machines, which the median
    // mostly escapes.
    std::nth_element(took.begin(), took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2),
                     took.end());
    CHECK(took[took.size() / 2] < 50.0);
  }
}

TEST_CASE("tokenization: what can't fit is certain after one slice") {
  tokenization work(smollm2(), repeated("a", 4'000'000), true);
  CHECK_FALSE(work.advance(65536));
  CHECK(work.at_least() > 8192);
  CHECK(work.at_least() <= 1'000'000);
}

TEST_CASE("tokenization: bytes that have no token make no text too long") {
  const std::string lost = repeated("\xF5", 100'000);
  REQUIRE(smollm2().encode("\xF5", true).empty());
  tokenization work(smollm2(), lost + "a", true);
  CHECK_FALSE(work.advance(100));
  CHECK(work.at_least() <= 1);
  CHECK(work.finish() == smollm2().encode("a", true));
}
