#include "gpu/model/text/pre_tokenizer.hpp"

#include <pthread.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "gpu/model/text/pre_tokenizer_classes.hpp"
#include "tests/support/source_dir.hpp"

using namespace troupe::gpu;

namespace {

const std::vector<std::string> rule_names{"gpt-2", "llama-bpe", "qwen2", "smollm"};

std::vector<std::size_t> ends_of(const std::string& rule, std::string_view text) {
  std::vector<std::size_t> out;
  for (std::size_t at = 0; at < text.size(); at = out.back()) {
    piece_scan scan(at);
    for (std::size_t budget = text.size();
         !scan.advance(find_pre_tokenizer(rule)->pieces, text, budget);)
      budget = text.size();
    out.push_back(scan.end());
  }
  return out;
}

/// The pieces with bars between them.
std::string pieces(const std::string& rule, std::string_view text) {
  std::string out;
  std::size_t start = 0;
  for (const auto end : ends_of(rule, text)) {
    if (start != 0) out += '|';
    out += text.substr(start, end - start);
    start = end;
  }
  return out;
}

std::string repeated(std::string_view text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

/// Runs `work` on a thread with a stack far below one frame for each of 200,000 characters.
void on_small_stack(const std::function<void()>& work) {
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, 256 * 1024) == 0);
  pthread_t thread;
  const auto run = [](void* given) -> void* {
    (*static_cast<const std::function<void()>*>(given))();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&work)) ==
          0);
  REQUIRE(pthread_join(thread, nullptr) == 0);
  pthread_attr_destroy(&attributes);
}

}  // namespace

TEST_CASE("C208 pre_tokenizer: pieces end where the reference regexes end them") {
  std::ifstream in(troupe::test::source_dir() + "/tests/data/pre_tokenizer_goldens.json");
  const auto goldens = nlohmann::json::parse(in);
  REQUIRE(goldens.size() >= 290);
  for (const auto& golden : goldens) {
    const auto text = golden["text"].get<std::string>();
    for (const auto& rule : rule_names) {
      INFO(rule << ": " << golden["text"].dump(-1, ' ', true));
      CHECK(ends_of(rule, text) == golden["ends"][rule].get<std::vector<std::size_t>>());
    }
  }
}

TEST_CASE("pre_tokenizer: the rules differ where their regexes differ") {
  CHECK(pieces("gpt-2", "It'S 12345\tx!\n\n") == "It|'|S| 12345|\t|x|!|\n\n");
  CHECK(pieces("llama-bpe", "It'S 12345\tx!\n\n") == "It|'S| |123|45|\tx|!\n\n");
  CHECK(pieces("qwen2", "It'S 12345\tx!\n\n") == "It|'S| |1|2|3|4|5|\tx|!\n\n");
  CHECK(pieces("smollm", "It'S 12345\tx!\n\n") == "It|'|S| |1|2|3|4|5|\t|x|!|\n\n");
}

TEST_CASE("C209 pre_tokenizer: one name, one rule; near misses are no names") {
  for (const std::string name :
       {"deepseek-r1-qwen", "gpt-2", "llama-bpe", "llama-v3", "llama3", "qwen2", "smollm"}) {
    INFO(name);
    CHECK(find_pre_tokenizer(name) != nullptr);
    CHECK(known_pre_tokenizers().find("\"" + name + "\"") != std::string_view::npos);
  }
  for (const std::string name :
       {"", "default", "gpt2", "Qwen2", "qwen2 ", "llama", "llama4", "smaug-bpe"}) {
    INFO(name);
    CHECK(find_pre_tokenizer(name) == nullptr);
  }
  CHECK(find_pre_tokenizer("llama3")->pieces == find_pre_tokenizer("llama-bpe")->pieces);
  CHECK(find_pre_tokenizer("llama-v3")->whole_pieces);
  CHECK_FALSE(find_pre_tokenizer("qwen2")->whole_pieces);
}

TEST_CASE("C206 pre_tokenizer: 200,000 equal characters take linear time and a small stack") {
  const auto start = std::chrono::steady_clock::now();
  for (const auto& rule : rule_names) {
    for (const std::string unit : {"a",
                                   " ",
                                   "\n",
                                   "\r",
                                   "\t",
                                   ".",
                                   "7",
                                   "'",
                                   "\xE6\x97\xA5",
                                   "\xCC\x81",
                                   "\xC2\xA0",
                                   "\xE2\x80\xA8",
                                   "\xD9\xA1",
                                   "\xF0\x9F\x98\x80",
                                   "\xFF",
                                   "'s",
                                   "\r\n",
                                   " \n",
                                   "\n ",
                                   " a",
                                   ".\n",
                                   " ."}) {
      const auto text = repeated(unit, 200'000);
      std::vector<std::size_t> ends;
      on_small_stack([&] { ends = ends_of(rule, text); });
      INFO(rule << " of '" << unit << "'");
      REQUIRE_FALSE(ends.empty());
      CHECK(ends.back() == text.size());
      CHECK(std::is_sorted(ends.begin(), ends.end()));
    }
  }
  // About 1 s; the margin is for sanitizers and busy machines. A quadratic scan takes minutes.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(120));
}

TEST_CASE("pre_tokenizer: pieces of any bytes follow each other without gap or overlap") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (auto count = random() % 24; count > 0; --count) {
      text += random() % 2 == 0 ? static_cast<char>(random() & 0xFF) : " \r\n'sA1."[random() % 9];
    }
    for (const auto& rule : rule_names) {
      std::size_t before = 0;
      bool growing = true;
      for (const auto end : ends_of(rule, text)) {
        growing = growing && end > before;
        before = end;
      }
      REQUIRE(growing);
      REQUIRE(before == text.size());
    }
  }
}

TEST_CASE("pre_tokenizer: classes are those of Unicode 16, ill-formed bytes are other") {
  CHECK(classify(U'a') == char_class::letter);
  CHECK(classify(0x1C89) == char_class::letter);   // Unicode 16
  CHECK(classify(0x2EBF0) == char_class::letter);  // Unicode 15.1
  CHECK(classify(0x10D40) == char_class::number);  // Unicode 16
  CHECK(classify(0x2167) == char_class::number);
  CHECK(classify(0x0301) == char_class::other);
  CHECK(classify(0x200B) == char_class::other);
  CHECK(classify(0x1F) == char_class::other);
  CHECK(classify(0x85) == char_class::space);
  CHECK(classify(0x0378) == char_class::other);
  CHECK(look_at("\xE6\x97", 0).kind == char_class::other);
  CHECK(look_at("\xE6\x97", 0).length == 2);
}
