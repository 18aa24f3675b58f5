#include "gpu/model/gguf/gguf.hpp"

#include <catch2/catch.hpp>

#include "tests/support/gguf_writer.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe::gpu;
using namespace troupe::test;

TEST_CASE("gguf: values of every type come back widened") {
  gguf_writer writer;
  writer.u8("u8", 200)
      .i32("i32", -7)
      .u64("u64", 1ull << 63)
      .f32("f32", 0.5f)
      .f64("f64", 0.1)
      .boolean("flag", true);
  writer.raw("i8", 1, number_bytes(std::int8_t{-3}))
      .raw("u16", 2, number_bytes(std::uint16_t{65535}));
  writer.text("text", "h\xC3\xA9")
      .texts("texts", {"a", "", "c"})
      .i32s("ints", {1, -2, 3})
      .i64("i64", 9);
  writer.array("bools", 7, 2, std::string("\x01\x00", 2));
  const temporary_file source(writer.bytes());
  const auto file = gguf_file::open(source.path());
  CHECK(file.get_uint("u8") == 200);
  CHECK(file.get_uint("u16") == 65535);
  CHECK(file.get_uint("u64") == 1ull << 63);
  CHECK(file.get_uint("i64") == 9);
  CHECK(file.get_float("f32") == 0.5);
  CHECK(file.get_float("f64") == 0.1);
  CHECK(file.find_bool("flag") == true);
  CHECK(file.get_string("text") == "h\xC3\xA9");
  CHECK(file.get_strings("texts") == std::vector<std::string>{"a", "", "c"});
  REQUIRE(file.find_ints("ints") != nullptr);
  CHECK(*file.find_ints("ints") == std::vector<std::int64_t>{1, -2, 3});
  CHECK(file.values().at("bools") == gguf_value{std::vector<bool>{true, false}});
  CHECK(kind_of(file.values().at("bools")) == std::string("bools"));
  CHECK_THROWS_WITH(file.find_ints("bools"),
                    source.path() + ": bools: is an array of bools, expected an array of integers");
  CHECK(file.find_uint("absent") == std::nullopt);
  CHECK(file.find_string("absent") == nullptr);
  CHECK(file.size_bytes() == writer.bytes().size());
}

TEST_CASE(
    "gguf: a look-up of the wrong type or an absent key names file, key, found and expected") {
  gguf_writer writer;
  writer.text("name", "x").i32("negative", -1).u32("count", 1);
  const temporary_file source(writer.bytes());
  const auto file = gguf_file::open(source.path());
  const auto& path = source.path();
  CHECK_THROWS_WITH(file.get_uint("name"),
                    path + ": name: is a string, expected an unsigned integer");
  CHECK_THROWS_WITH(file.get_uint("negative"), path + ": negative: is -1, expected at least 0");
  CHECK_THROWS_WITH(file.get_float("count"),
                    path + ": count: is an unsigned integer, expected a float");
  CHECK_THROWS_WITH(file.find_strings("name"),
                    path + ": name: is a string, expected an array of strings");
  CHECK_THROWS_WITH(file.get_string("absent"), path + ": absent: missing, expected a string");
}

TEST_CASE("gguf: tensors are found with their shape, type and exact bytes") {
  gguf_writer writer;
  const std::string blocks(18 * 2, '\x5A');
  writer.tensor("norm", {3}, 0, std::string(12, '\x11')).tensor("m", {32, 2}, 2, blocks);
  const temporary_file source(writer.bytes());
  const auto file = gguf_file::open(source.path());
  REQUIRE(file.tensors().size() == 2);
  const auto* m = file.find_tensor("m");
  REQUIRE(m != nullptr);
  CHECK(m->type == tensor_type::q4_0);
  CHECK(m->shape == std::vector<std::uint64_t>{32, 2});
  CHECK(m->rows() == 2);
  CHECK(std::string(reinterpret_cast<const char*>(m->data.data()), m->data.size()) == blocks);
  CHECK(file.find_tensor("norm")->data.size() == 12);
  CHECK(file.find_tensor("n") == nullptr);
}

TEST_CASE("gguf: version 2 and another alignment are read") {
  gguf_writer writer;
  writer.version = 2;
  writer.alignment = 64;
  writer.u32("general.alignment", 64).tensor("a", {1}, 0, "abcd").tensor("b", {1}, 0, "efgh");
  const temporary_file source(writer.bytes());
  auto file = gguf_file::open(source.path());
  const auto moved = std::move(file);
  const auto& b = *moved.find_tensor("b");
  CHECK(std::string(reinterpret_cast<const char*>(b.data.data()), b.data.size()) == "efgh");
}

TEST_CASE("gguf: a file opened for inspection tells its metadata, and tensors of any type") {
  gguf_writer writer;
  writer.text("general.architecture", "unheard_of").u32("a", 7).i32("b", -7).f32("c", 0.5f);
  writer.boolean("d", false).texts("e", {"x"}).i32s("f", {1, 2});
  writer.array("g", 6, 1, number_bytes(1.5f));
  writer.tensor("q2", {256, 3}, 10, std::string(84 * 3, 'q'));
  writer.tensor("new", {5, 2}, 4000, std::string(64, 'n'));
  writer.tensor("plain", {3}, 0, std::string(12, 'p'));
  const temporary_file source(writer.bytes());
  CHECK_THROWS_AS(gguf_file::open(source.path()), model_error);

  const auto file = gguf_file::open_any(source.path());
  CHECK(file.version() == 3);
  std::vector<std::pair<std::string, std::string>> kinds;
  for (const auto& [key, value] : file.values()) kinds.emplace_back(key, kind_of(value));
  CHECK(kinds ==
        std::vector<std::pair<std::string, std::string>>{{"a", "uint"},
                                                         {"b", "int"},
                                                         {"c", "float"},
                                                         {"d", "bool"},
                                                         {"e", "strings"},
                                                         {"f", "ints"},
                                                         {"g", "floats"},
                                                         {"general.architecture", "string"}});
  REQUIRE(file.tensors().size() == 3);
  const auto& q2 = file.tensors()[0];
  CHECK(std::string(name_of(q2.type)) == "Q2_K");
  CHECK_FALSE(loadable(q2.type));
  CHECK(q2.data.size() == 84 * 3);
  const auto& unknown = file.tensors()[1];
  CHECK(static_cast<std::uint32_t>(unknown.type) == 4000);
  CHECK(std::string(name_of(unknown.type)) == "unknown");
  CHECK(unknown.shape == std::vector<std::uint64_t>{5, 2});
  CHECK(unknown.data.empty());
  CHECK(file.tensors()[2].data.size() == 12);
  CHECK(loadable(file.tensors()[2].type));
}

TEST_CASE("gguf: the sizes of the types that can be loaded are those of the format") {
  const std::vector<std::tuple<std::string, std::uint32_t, std::uint32_t>> expected = {
      {"F32", 1, 4},      {"F16", 1, 2},      {"Q4_0", 32, 18}, {"Q4_1", 32, 20},
      {"Q5_0", 32, 22},   {"Q5_1", 32, 24},   {"Q8_0", 32, 34}, {"Q4_K", 256, 144},
      {"Q5_K", 256, 176}, {"Q6_K", 256, 210}, {"BF16", 1, 2}};
  std::size_t at = 0;
  for (std::uint32_t number = 0; number < 64; ++number) {
    const auto type = static_cast<tensor_type>(number);
    if (!loadable(type)) continue;
    REQUIRE(at < expected.size());
    CHECK(std::tuple(std::string(name_of(type)), block_elements(type), block_bytes(type)) ==
          expected[at++]);
  }
  CHECK(at == expected.size());
}

TEST_CASE("gguf: the default model is read") {
  const auto file = gguf_file::open(default_model_path());
  CHECK(file.tensors().size() == 272);
  CHECK(file.get_string("general.architecture") == "llama");
  CHECK(file.get_strings("tokenizer.ggml.tokens").size() == 49152);
  const auto* embeddings = file.find_tensor("token_embd.weight");
  REQUIRE(embeddings != nullptr);
  CHECK(embeddings->type == tensor_type::q8_0);
  CHECK(embeddings->data.size() == 576ull / 32 * 34 * 49152);
}
