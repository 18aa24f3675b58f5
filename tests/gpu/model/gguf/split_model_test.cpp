#include "gpu/model/gguf/split_model.hpp"

#include <catch2/catch.hpp>
#include <filesystem>

#include "gpu/make_backend.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe::gpu;
using namespace troupe::test;

namespace {

gguf_writer& mark_as_part(gguf_writer& writer, std::uint16_t number, std::uint16_t count) {
  writer.raw("split.no", 2, number_bytes(number)).raw("split.count", 2, number_bytes(count));
  return writer.raw("split.tensors.count", 5, number_bytes(std::int32_t{20}));
}

/// What load_model says of a file with these bytes, without the path in front.
std::string refusal(const std::string& bytes) {
  const temporary_file source(bytes);
  try {
    load_model(source.path());
  } catch (const model_error& error) {
    return std::string(error.what()).substr(source.path().size() + 2);
  }
  return "no error";
}

/// A part with the metadata of the model and the first of its tensors, as gguf-split leaves it.
std::string first_part_bytes() {
  auto writer = tiny_llama_metadata({});
  mark_as_part(writer, 0, 3);
  writer.tensor("token_embd.weight", {64, 270}, 1, std::string(64 * 270 * 2, '\0'));
  return writer.bytes();
}

const std::string advice =
    "split files are not served, join the parts with llama.cpp's tool: "
    "llama-gguf-split --merge FIRST-PART.gguf MODEL.gguf";

}  // namespace

TEST_CASE("F005 split_model: the first part is refused as part 1 of 3, with the way to join them") {
  CHECK(refusal(first_part_bytes()) ==
        "split.count: this file is part 1 of 3 of a split model; " + advice);
}

TEST_CASE("F005 split_model: a later part, which has no metadata of the model, says the same") {
  gguf_writer writer;
  mark_as_part(writer, 1, 3)
      .tensor("blk.1.attn_q.weight", {64, 64}, 1, std::string(64 * 64 * 2, '\0'));
  CHECK(refusal(writer.bytes()) ==
        "split.count: this file is part 2 of 3 of a split model; " + advice);
}

TEST_CASE("F005 split_model: a part is called a part whatever else is wrong with it") {
  gguf_writer writer;
  mark_as_part(writer, 2, 3).tensor("x", {32}, 777, std::string(32, '\0'));  // no such tensor type
  CHECK(refusal(writer.bytes()).starts_with("split.count: this file is part 3 of 3"));
}

TEST_CASE("F005 split_model: a part that happens to hold every tensor is refused too") {
  auto writer = tiny_llama_metadata({});
  mark_as_part(writer, 0, 2);
  add_tiny_llama_tensors(writer, {});
  CHECK(refusal(writer.bytes()) ==
        "split.count: this file is part 1 of 2 of a split model; " + advice);
}

TEST_CASE("F005 split_model: a joined file, which keeps split.count as 0 or 1, is loaded") {
  for (const std::uint16_t count : {0, 1}) {
    auto writer = tiny_llama_metadata({});
    mark_as_part(writer, 0, count);
    add_tiny_llama_tensors(writer, {});
    CHECK(refusal(writer.bytes()) == "no error");
  }
}

TEST_CASE("F005 split_model: a part without its number, or with one out of range, is still named") {
  gguf_writer unnumbered;
  unnumbered.raw("split.count", 2, number_bytes(std::uint16_t{3}));
  CHECK(refusal(unnumbered.bytes()).starts_with("split.count: this file is one part of 3 of a"));
  gguf_writer beyond;
  mark_as_part(beyond, 3, 3);
  CHECK(refusal(beyond.bytes()).starts_with("split.count: this file is one part of 3 of a"));
  gguf_writer text;
  text.text("split.count", "3");
  CHECK(refusal(text.bytes()) == "split.count: is a string, expected an unsigned integer");
}

TEST_CASE("F005 split_model: the command names the first part where the names follow the pattern") {
  gguf_writer writer;
  const temporary_file part(mark_as_part(writer, 1, 3).bytes(), "tiny-00002-of-00003.gguf");
  const auto name = std::filesystem::path(part.path()).filename().string();
  const auto model = name.substr(0, name.find("-00002"));
  CHECK_THROWS_WITH(
      load_model(part.path()),
      Catch::Contains("part 2 of 3") && Catch::EndsWith("llama-gguf-split --merge " + model +
                                                        "-00001-of-00003.gguf " + model + ".gguf"));
}
