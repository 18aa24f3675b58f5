#include "tools/cli/inspect.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe;

namespace {

early_exit run(const std::string& path, bool on_terminal) {
  const std::vector<const char*> argv{"troupe", "inspect", path.c_str()};
  return std::get<early_exit>(parse_options(3, argv.data(), {}, on_terminal).what);
}

nlohmann::json inspected(const std::string& bytes) {
  const test::temporary_file file{bytes};
  const auto answer = run(file.path(), false);
  INFO(answer.text);
  REQUIRE(answer.code == 0);
  return nlohmann::json::parse(answer.text);
}

bool says(const nlohmann::json& answer, const std::string& part) {
  for (const auto& one : answer["unsupported"])
    if (one.get<std::string>().find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("inspect: a file that can be served shows header, metadata, tensors and types",
          "[config]") {
  const auto answer = inspected(test::tiny_llama_bytes());
  CHECK(answer["gguf_version"] == 3);
  CHECK(answer["architecture"] == "llama");
  CHECK(answer["name"] == "tiny");
  CHECK(answer["supported"] == true);
  CHECK(answer["unsupported"].empty());
  CHECK(answer["tensor_count"] == 20);
  CHECK(answer["tensors"][0] == nlohmann::json{{"name", "token_embd.weight"},
                                               {"type", "F16"},
                                               {"shape", {64, 270}},
                                               {"bytes", 64 * 270 * 2}});
  CHECK(answer["types"]["F32"]["tensors"] == 5);
  CHECK(answer["metadata"]["llama.block_count"] == 2);
  CHECK(answer["metadata"]["tokenizer.ggml.tokens"]["count"] == 270);
  CHECK(answer["metadata"]["tokenizer.ggml.tokens"]["first"].size() == 8);
  CHECK(answer["tokenizer"]["pre"] == "smollm");
  CHECK(answer["chat_template"]["compiles"] == true);
}

TEST_CASE("inspect: what cannot be served is listed with the reason, and the exit code is 0",
          "[config]") {
  test::gguf_writer strange;
  strange.text("general.architecture", "mamba")
      .text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.ggml.pre", "unheard-of");
  strange.texts("tokenizer.ggml.tokens", {"a", "b"})
      .texts("tokenizer.ggml.merges", {})
      .i32s("tokenizer.ggml.token_type", {1, 1});
  strange.text("tokenizer.chat_template", "{% unknown_statement %}");
  strange.tensor("x.weight", {256, 2}, 16, std::string(2 * 66, '\0'));  // IQ2_XXS
  strange.tensor("y.weight", {32}, 777, std::string(32, '\0'));         // no such type
  const auto answer = inspected(strange.bytes());
  CHECK(answer["supported"] == false);
  CHECK(says(answer, "1 tensor(s) of type IQ2_XXS: supported are F32"));
  CHECK(says(answer, "1 tensor(s) of type type 777"));
  CHECK(says(answer, "general.architecture: \"mamba\""));
  CHECK(says(answer, "unheard-of"));
  CHECK(says(answer, "tokenizer.chat_template: "));
  CHECK(answer["chat_template"]["compiles"] == false);
  CHECK(answer["types"]["IQ2_XXS"]["supported"] == false);
}

TEST_CASE("F005 inspect: a part of a split model is called that, and nothing else about it",
          "[config]") {
  test::gguf_writer part;  // the second of three: tensors and no metadata of the model
  part.raw("split.no", 2, test::number_bytes(std::uint16_t{1}))
      .raw("split.count", 2, test::number_bytes(std::uint16_t{3}))
      .tensor("blk.1.attn_q.weight", {64, 64}, 1, std::string(64 * 64 * 2, '\0'));
  const auto answer = inspected(part.bytes());
  CHECK(answer["supported"] == false);
  CHECK(answer["unsupported"].size() == 1);
  CHECK(says(answer, "this file is part 2 of 3 of a split model"));
  CHECK(says(answer, "gguf-split --merge"));
}

TEST_CASE("inspect: words are for a terminal, and control characters in names never reach it",
          "[config]") {
  auto file = test::tiny_llama_metadata({});
  file.text("evil\x1b[2J", "\x1b]0;title\x07");
  test::add_tiny_llama_tensors(file, {});
  const test::temporary_file model{file.bytes()};
  const auto answer = run(model.path(), true);
  CHECK(answer.code == 0);
  CHECK(answer.text.find('\x1b') == std::string::npos);
  CHECK(answer.text.find("GGUF version 3") != std::string::npos);
  CHECK(answer.text.find("\"tokenizer.ggml.tokens\" (strings) = [") != std::string::npos);
  CHECK(answer.text.find(" ...] (270 values)") != std::string::npos);
  CHECK(answer.text.find("supported: troupe serve can load this file\n") != std::string::npos);
}

TEST_CASE("inspect: no model, no file and no GGUF are one line with exit code 2", "[config]") {
  const std::vector<const char*> argv{"troupe", "inspect"};
  CHECK(std::get<early_exit>(parse_options(2, argv.data()).what).text ==
        "troupe: MODEL: no model file given\n");
  const test::temporary_file text{"just a text of more than twenty-four bytes"};
  const auto answer = run(text.path(), true);
  CHECK(answer.code == 2);
  CHECK(answer.text.find("magic is \"just\", expected \"GGUF\"") != std::string::npos);
  CHECK(run("/nowhere.gguf", true).code == 2);
}
