// tokenizer.ggml.token_type in every element type a writer may have chosen for it: the format says
// INT32, and a wider or narrower integer is accepted exactly where no value can change.
#include <catch2/catch.hpp>

#include "gpu/model/text/tokenizer.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe::gpu;
using namespace troupe::test;

namespace {

/// The bytes of the kinds as elements of another type.
template <class T>
std::string elements(const std::vector<std::int32_t>& kinds) {
  std::string out;
  for (const auto kind : kinds) out += number_bytes(static_cast<T>(kind));
  return out;
}

gguf_writer vocabulary_of(std::uint32_t element_type, const std::string& kinds) {
  const auto vocabulary = tiny_vocabulary_of_bytes();
  gguf_writer out;
  out.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "smollm");
  out.texts("tokenizer.ggml.tokens", vocabulary.tokens);
  out.texts("tokenizer.ggml.merges", vocabulary.merges);
  out.array("tokenizer.ggml.token_type", element_type, vocabulary.kinds.size(), kinds);
  return out;
}

std::string refusal(std::uint32_t element_type, const std::string& kinds) {
  const temporary_file source(vocabulary_of(element_type, kinds).bytes());
  try {
    tokenizer::from_gguf(gguf_file::open(source.path()));
  } catch (const model_error& error) {
    return std::string(error.what()).substr(source.path().size() + 2);
  }
  return "no error";
}

constexpr std::uint32_t u8 = 0, i8 = 1, u16 = 2, i16 = 3, u32 = 4, i32 = 5, f32 = 6, boolean = 7,
                        u64 = 10, i64 = 11, f64 = 12;

}  // namespace

TEST_CASE("D9 tokenizer: token types keep their meaning in integers of every width and sign") {
  const auto kinds = tiny_vocabulary_of_bytes().kinds;
  for (const auto& [type, bytes] :
       std::vector<std::pair<std::uint32_t, std::string>>{{u8, elements<std::uint8_t>(kinds)},
                                                          {i8, elements<std::int8_t>(kinds)},
                                                          {u16, elements<std::uint16_t>(kinds)},
                                                          {i16, elements<std::int16_t>(kinds)},
                                                          {u32, elements<std::uint32_t>(kinds)},
                                                          {i32, elements<std::int32_t>(kinds)},
                                                          {u64, elements<std::uint64_t>(kinds)},
                                                          {i64, elements<std::int64_t>(kinds)}}) {
    INFO("element type " << type);
    const temporary_file source(vocabulary_of(type, bytes).bytes());
    const auto vocabulary = tokenizer::from_gguf(gguf_file::open(source.path()));
    for (std::uint32_t id = 0; id < vocabulary.vocab_size(); ++id)
      CHECK(vocabulary.is_special(static_cast<troupe::token_id>(id)) == (kinds[id] == 3));
    CHECK(vocabulary.encode("<|im_end|>", true) == std::vector<troupe::token_id>{2});
  }
}

TEST_CASE("D9 tokenizer: a token type that is none is refused by name in every integer type") {
  auto kinds = tiny_vocabulary_of_bytes().kinds;
  kinds[7] = 255;  // as INT8 these eight bits are -1: the refusal names what the file's type says
  const auto said = [](const char* value) {
    return std::string("tokenizer.ggml.token_type: token 7 has type ") + value +
           ", expected 1 to 6";
  };
  CHECK(refusal(u8, elements<std::uint8_t>(kinds)) == said("255"));
  CHECK(refusal(i8, elements<std::int8_t>(kinds)) == said("-1"));
  CHECK(refusal(i64, elements<std::int64_t>(kinds)) == said("255"));
  kinds[7] = 0;
  CHECK(refusal(u8, elements<std::uint8_t>(kinds)) == said("0"));
  auto wide = elements<std::uint64_t>(tiny_vocabulary_of_bytes().kinds);
  wide[8 * 7 + 4] = 1;  // 2^32 + 1: a reader that narrowed to 32 bits would take it for 1
  CHECK(refusal(u64, wide) == said("4294967297"));
}

TEST_CASE("D9 tokenizer: token types that are no integers are refused by name") {
  const auto kinds = std::vector<std::int32_t>(tiny_vocabulary_of_bytes().kinds.size(), 1);
  const std::string key = "tokenizer.ggml.token_type: is an array of ";
  CHECK(refusal(boolean, elements<std::uint8_t>(kinds)) ==
        key + "bools, expected an array of integers");
  CHECK(refusal(f32, elements<float>(kinds)) == key + "floats, expected an array of integers");
  CHECK(refusal(f64, elements<double>(kinds)) == key + "floats, expected an array of integers");
}
