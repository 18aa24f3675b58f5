// What depends on the pre-tokenizer rule a file names, and whole conversations against a reference.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "gpu/model/text/tokenizer.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe::gpu;
using namespace troupe::test;
using troupe::token_id;

namespace {

constexpr token_id first_byte = 3;  // of the tiny vocabulary: byte b is token 3 + b

tokenizer tiny_with(
    const std::string& pre, const tiny_vocabulary& vocabulary,
    const std::function<void(gguf_writer&)>& more = [](gguf_writer&) {}) {
  gguf_writer writer;
  writer.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
  writer.texts("tokenizer.ggml.tokens", vocabulary.tokens)
      .i32s("tokenizer.ggml.token_type", vocabulary.kinds)
      .texts("tokenizer.ggml.merges", vocabulary.merges);
  more(writer);
  const temporary_file source(writer.bytes());
  return tokenizer::from_gguf(gguf_file::open(source.path()));
}

/// All bytes, and "xyz" as a token that no merge leads to.
tiny_vocabulary with_unreachable_token(std::int32_t kind = 1) {
  auto vocabulary = tiny_vocabulary_of_bytes();
  vocabulary.tokens.push_back("xyz");
  vocabulary.kinds.push_back(kind);
  return vocabulary;
}

}  // namespace

TEST_CASE("tokenizer: under Llama 3's rule a piece that is a token is that token, merges or not") {
  const auto vocabulary = with_unreachable_token();
  const auto whole = static_cast<token_id>(vocabulary.tokens.size() - 1);
  const std::vector<token_id> apart{first_byte + 'x', first_byte + 'y', first_byte + 'z'};
  for (const std::string pre : {"llama-bpe", "llama3", "llama-v3"}) {
    INFO(pre);
    const auto subject = tiny_with(pre, vocabulary);
    CHECK(subject.encode("xyz", false) == std::vector<token_id>{whole});
    CHECK(subject.encode("1xyz", false) == std::vector<token_id>{first_byte + '1', whole});
    // Only a whole piece: "xyzx" is another.
    CHECK(subject.encode("xyzx", false).size() == 4);
  }
  for (const std::string pre : {"gpt-2", "qwen2", "smollm"}) {
    INFO(pre);
    CHECK(tiny_with(pre, vocabulary).encode("xyz", false) == apart);
  }
}

TEST_CASE("tokenizer: a piece that spells a control or user-defined token stays text") {
  for (const std::int32_t kind : {3, 4}) {
    const auto vocabulary = with_unreachable_token(kind);
    const auto special = static_cast<token_id>(vocabulary.tokens.size() - 1);
    const auto subject = tiny_with("llama-bpe", vocabulary);
    CHECK(subject.encode("xyz", false).size() == 3);
    CHECK(subject.encode("xyz", true) == std::vector<token_id>{special});
  }
}

TEST_CASE("tokenizer: Llama 3's rule puts bos in front where the file says nothing") {
  const auto vocabulary = tiny_vocabulary_of_bytes();
  const auto with_bos = [](gguf_writer& w) { w.u32("tokenizer.ggml.bos_token_id", 1); };
  CHECK(tiny_with("llama-bpe", vocabulary, with_bos).add_bos());
  CHECK_FALSE(tiny_with("llama-bpe", vocabulary).add_bos());
  CHECK_FALSE(tiny_with("qwen2", vocabulary, with_bos).add_bos());
  CHECK_FALSE(tiny_with("llama-bpe", vocabulary, [&](gguf_writer& w) {
                with_bos(w);
                w.boolean("tokenizer.ggml.add_bos_token", false);
              }).add_bos());
}

TEST_CASE("C206 tokenizer: 200,000 equal characters under every rule") {
  auto vocabulary = tiny_vocabulary_of_bytes();
  for (const std::string pre : {"gpt-2", "llama-bpe", "qwen2", "smollm"}) {
    const auto subject = tiny_with(pre, vocabulary);
    for (const std::string unit : {"a", " ", "\n", ".", "7", "\xE6\x97\xA5", "\xCC\x81"}) {
      std::string text, back;
      for (int i = 0; i < 200'000; ++i) text += unit;
      for (const auto id : subject.encode(text, true)) back += subject.bytes(id);
      INFO(pre << " of " << unit);
      CHECK(back == text);
    }
  }
}

TEST_CASE("C211 C212 tokenizer: 200 conversations have the reference's ids") {
  const auto file = gguf_file::open(default_model_path());
  const auto subject = tokenizer::from_gguf(file);
  const auto chat = chat_template::compile(*file.find_string("tokenizer.chat_template"),
                                           subject.bytes(1), subject.bytes(2));
  std::ifstream in(troupe::test::source_dir() + "/tests/data/conversation_ids.json");
  const auto goldens = nlohmann::json::parse(in);
  REQUIRE(goldens.size() == 200);
  for (const auto& golden : goldens) {
    std::vector<chat_turn> messages;
    for (const auto& turn : golden["messages"]) messages.push_back({turn[0], turn[1]});
    const auto ids = subject.encode(chat.render(messages, golden["prompt"].get<bool>()));
    INFO(golden["messages"].dump(-1, ' ', true));
    CHECK(ids == golden["ids"].get<std::vector<token_id>>());
    // One <|im_start|> (token 1, also bos) for each message, the template's own system turn and the
    // generation prompt; none is added in front.
    const auto turns = messages.size() + (messages[0].role == "system" ? 0 : 1) +
                       (golden["prompt"].get<bool>() ? 1 : 0);
    CHECK(static_cast<std::size_t>(std::count(ids.begin(), ids.end(), 1)) == turns);
  }
}
