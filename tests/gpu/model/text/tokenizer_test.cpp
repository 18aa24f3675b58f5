#include "gpu/model/text/tokenizer.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <functional>
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

tokenizer tiny() {
  const temporary_file source(tiny_llama_metadata({}).bytes());
  return tokenizer::from_gguf(gguf_file::open(source.path()));
}

std::string decode(const tokenizer& vocabulary, const std::vector<token_id>& ids) {
  detokenizer text(vocabulary, false);
  std::string out;
  for (const auto id : ids) out += text.push(id);
  return out + text.flush();
}

/// What is said of a tiny vocabulary after `change`, without the path in front.
std::string refusal(const std::function<void(tiny_vocabulary&)>& change,
                    const std::string& pre = "smollm") {
  auto vocabulary = tiny_vocabulary_of_bytes();
  change(vocabulary);
  gguf_writer writer;
  writer.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", vocabulary.tokens);
  if (!pre.empty()) writer.text("tokenizer.ggml.pre", pre);
  writer.i32s("tokenizer.ggml.token_type", vocabulary.kinds)
      .texts("tokenizer.ggml.merges", vocabulary.merges);
  const temporary_file source(writer.bytes());
  try {
    tokenizer::from_gguf(gguf_file::open(source.path()));
  } catch (const model_error& error) {
    return std::string(error.what()).substr(source.path().size() + 2);
  }
  return "no error";
}

std::string repeated(std::string_view text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("C208 tokenizer: the reference's strings have the reference's ids") {
  std::ifstream in(troupe::test::source_dir() + "/tests/data/smollm2-135m-instruct-q4_1.json");
  const auto reference = nlohmann::json::parse(in);
  REQUIRE(reference["tokenizer"].size() == 30);
  for (const auto& entry : reference["tokenizer"]) {
    const auto text = entry["text"].get<std::string>();
    INFO(text);
    CHECK(smollm2().encode(text, true) == entry["ids"].get<std::vector<token_id>>());
  }
}

TEST_CASE("C208 tokenizer: more strings have the ids of the tokenizer the model was made with") {
  std::ifstream in(troupe::test::source_dir() + "/tests/data/tokenizer_smollm.json");
  const auto golden = nlohmann::json::parse(in);
  REQUIRE(golden.size() >= 200);
  for (const auto& entry : golden) {
    const auto text = entry["text"].get<std::string>();
    INFO(text);
    CHECK(smollm2().encode(text, true) == entry["ids"].get<std::vector<token_id>>());
    CHECK(decode(smollm2(), smollm2().encode(text, false)) == text);
  }
}

TEST_CASE("tokenizer: facts of the default model") {
  CHECK(smollm2().vocab_size() == 49152);
  CHECK(smollm2().end_tokens() == std::vector<token_id>{0, 2});
  CHECK(smollm2().bos() == 1);
  CHECK_FALSE(smollm2().add_bos());
  CHECK(smollm2().is_special(2));
  CHECK_FALSE(smollm2().is_special(100));
  CHECK(smollm2().bytes(2) == "<|im_end|>");
  CHECK(smollm2().bytes(253) == " a");
}

TEST_CASE("tokenizer: text of special tokens stays text unless it may be parsed") {
  const auto parsed = smollm2().encode("<|im_start|>user", true);
  const auto plain = smollm2().encode("<|im_start|>user", false);
  CHECK(parsed == std::vector<token_id>{1, 4093});
  CHECK(plain.size() > parsed.size());
  for (const auto id : plain) CHECK_FALSE(smollm2().is_special(id));
  CHECK(decode(smollm2(), plain) == "<|im_start|>user");
}

TEST_CASE("tokenizer: the longest special token at the leftmost place wins") {
  auto vocabulary = tiny_vocabulary_of_bytes();
  for (const char* text : {"<|a", "<|ab|>", "<|ab", "b|>"}) {
    vocabulary.tokens.push_back(text);
    vocabulary.kinds.push_back(4);
  }
  const auto first = static_cast<token_id>(vocabulary.tokens.size() - 4);
  gguf_writer writer;
  writer.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "smollm");
  writer.texts("tokenizer.ggml.tokens", vocabulary.tokens)
      .i32s("tokenizer.ggml.token_type", vocabulary.kinds);
  writer.texts("tokenizer.ggml.merges", vocabulary.merges);
  const temporary_file source(writer.bytes());
  const auto subject = tokenizer::from_gguf(gguf_file::open(source.path()));
  CHECK(subject.encode("<|ab|>", true) == std::vector<token_id>{first + 1});
  CHECK(subject.encode("<|ab|", true) == std::vector<token_id>{first + 2, 3 + '|'});
  CHECK(subject.encode("<|ac", true) == std::vector<token_id>{first, 3 + 'c'});
  CHECK(subject.encode("<|<|ab|>", true) == std::vector<token_id>{3 + '<', 3 + '|', first + 1});
  CHECK(subject.encode("xb|>", true) == std::vector<token_id>{3 + 'x', first + 3});
  CHECK_FALSE(subject.is_special(first));
}

TEST_CASE("tokenizer: merges follow their ranks") {
  const auto subject = tiny();
  const auto id_of = [&](const std::string& text) {
    for (token_id id = 3; id < static_cast<token_id>(subject.vocab_size()); ++id) {
      if (subject.bytes(id) == text) return id;
    }
    return -1;
  };
  CHECK(subject.encode("hello the and", false) ==
        std::vector<token_id>{id_of("hello"), id_of(" the"), id_of(" "), id_of("and")});
  CHECK(subject.encode("aaaaaaa", false) ==
        std::vector<token_id>{id_of("aaaa"), id_of("aa"), id_of("a")});
}

TEST_CASE(
    "tokenizer: every byte string comes back byte for byte from a vocabulary with all bytes") {
  const auto subject = tiny();
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (auto count = random() % 40; count > 0; --count) {
      const auto kind = random() % 4;
      if (kind == 0) text += static_cast<char>(random() & 0xFF);
      if (kind == 1) text += " \n\t'1\xC2\xA0"[random() % 7];
      if (kind == 2)
        text += std::vector<std::string>{"\xC3\xA9", "\xE2\x80\x83", "\xF0\x9F\x98\x80",
                                         "\xE2"}[random() % 4];
      if (kind == 3) text += "hello the"[random() % 9];
    }
    std::string back;
    for (const auto id : subject.encode(text, random() % 2 == 0)) back += subject.bytes(id);
    REQUIRE(back == text);
  }
}

TEST_CASE("C206 tokenizer: a megabyte of one character takes little time and stack") {
  for (const std::string unit :
       {"a", " ", "\n", ".", "7", "\xE6\x97\xA5", "\xCC\x81", "<", "<|im_start|>", "ab", "'"}) {
    const auto text = repeated(unit, 1'000'000 / unit.size());
    INFO(unit);
    const auto start = std::chrono::steady_clock::now();
    const auto ids = smollm2().encode(text, true);
    // About 0.3 s at most; the margin is for sanitizers and busy machines.
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(120));
    CHECK(decode(smollm2(), ids) == text);
  }
}

TEST_CASE("C209 tokenizer: an unknown or missing pre-tokenizer is refused by name") {
  const auto nothing = [](tiny_vocabulary&) {};
  CHECK(refusal(nothing) == "no error");
  const std::string known =
      "supported are \"deepseek-r1-qwen\", \"gpt-2\", \"llama-bpe\", \"llama-v3\", \"llama3\", "
      "\"qwen2\", \"smollm\"";
  CHECK(refusal(nothing, "default") == "tokenizer.ggml.pre: \"default\", " + known);
  CHECK(refusal(nothing, "no\nsuch") == "tokenizer.ggml.pre: \"no\\x0asuch\", " + known);
  CHECK(refusal(nothing, "qwen2") == "no error");
  CHECK(refusal(nothing, "") == "tokenizer.ggml.pre: missing, expected a string");
}

TEST_CASE("tokenizer: damaged vocabularies are refused") {
  CHECK(refusal([](auto& v) { v.tokens[5] = v.tokens[4]; }) ==
        "tokenizer.ggml.tokens: token 5 \"\\xc4\\x81\" repeats token 4");
  CHECK(refusal([](auto& v) { v.tokens[5] = ""; }) ==
        "tokenizer.ggml.tokens: token 5 \"\" is empty");
  CHECK(refusal([](auto& v) { v.tokens[3 + 'a'] = "zz"; }) ==
        "tokenizer.ggml.tokens: no token for the byte 97");
  CHECK(
      refusal([](auto& v) { v.tokens.back() = "\xE6\x97\xA5"; }) ==
      "tokenizer.ggml.tokens: token 269 \"\\xe6\\x97\\xa5\" has a letter that stands for no byte");
  CHECK(refusal([](auto& v) { v.kinds.pop_back(); }) ==
        "tokenizer.ggml.token_type: 269 elements, expected one for each of the 270 tokens");
  CHECK(refusal([](auto& v) { v.kinds[4] = 9; }) ==
        "tokenizer.ggml.token_type: token 4 has type 9, expected 1 to 6");
  CHECK(refusal([](auto& v) { v.merges[0] = "qq z"; }) ==
        "tokenizer.ggml.merges: merge 0 \"qq z\" needs \"qq\", which is not a token");
  CHECK(refusal([](auto& v) { v.merges[0] = "q z"; }) ==
        "tokenizer.ggml.merges: merge 0 \"q z\" needs \"qz\", which is not a token");
  for (const std::string line : {"ab", " a", "a ", "a b c", ""}) {
    CHECK(refusal([&](auto& v) { v.merges[0] = line; }).find("is not two parts and a space") !=
          std::string::npos);
  }
}

TEST_CASE("tokenizer: special ids outside the vocabulary are refused") {
  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                          "tokenizer.ggml.eot_token_id"}) {
    const auto vocabulary = tiny_vocabulary_of_bytes();
    gguf_writer writer;
    writer.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "smollm").u32(key, 270);
    writer.texts("tokenizer.ggml.tokens", vocabulary.tokens)
        .texts("tokenizer.ggml.merges", vocabulary.merges);
    const temporary_file source(writer.bytes());
    CHECK_THROWS_WITH(tokenizer::from_gguf(gguf_file::open(source.path())),
                      source.path() + ": " + key + ": 270, expected less than the 270 tokens");
  }
}

TEST_CASE("C056 detokenizer: whole characters come at once, fragments wait") {
  const auto subject = tiny();
  const auto byte = [](unsigned value) { return static_cast<token_id>(3 + value); };
  detokenizer text(subject);
  CHECK(text.push(byte(' ')) == " ");
  CHECK(text.push(byte(0xE9)).empty());
  CHECK(text.push(byte(0x91)).empty());
  const auto copy = text;
  CHECK(text.push(byte(0xAB)) == "\xE9\x91\xAB");
  CHECK(text.flush().empty());
  auto other = copy;
  CHECK(other.flush() == "\xEF\xBF\xBD");
  CHECK(other.flush().empty());
}

TEST_CASE("detokenizer: ill-formed bytes become one replacement for each maximal part") {
  const auto subject = tiny();
  const std::string lost = "\xEF\xBF\xBD";
  const auto shown = [&](std::string_view bytes) {
    detokenizer text(subject);
    std::string out;
    for (const char c : bytes)
      out += text.push(static_cast<token_id>(3 + static_cast<unsigned char>(c)));
    return out + text.flush();
  };
  CHECK(shown("a\x80z") == "a" + lost + "z");
  CHECK(shown("\xC0\xAFz") == lost + lost + "z");
  CHECK(shown("\xE9\x91z") == lost + "z");
  CHECK(shown("\xED\xA0\x80") == lost + lost + lost);
  CHECK(shown("\xF0\x9F\x98\xE9\x91\xAB") == lost + "\xE9\x91\xAB");
  CHECK(shown("\xF4\x90\x80\x80") == lost + lost + lost + lost);
  CHECK(shown("\xF0\x9F") == lost);
}

TEST_CASE("detokenizer: control tokens are left out or shown") {
  detokenizer hidden(smollm2()), shown(smollm2(), false);
  CHECK(hidden.push(2).empty());
  CHECK(shown.push(2) == "<|im_end|>");
}
