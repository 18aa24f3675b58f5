// Files that are wrong by accident or on purpose: each must end in one clear line, quickly, in
// bounded memory.
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <random>

#include "gpu/model/gguf/gguf.hpp"
#include "gpu/model/model_config.hpp"
#include "gpu/model/text/tokenizer.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe::gpu;
using namespace troupe::test;

namespace {

/// What opening `path` says, without the path in front; checks that it is one line, says the path,
/// and is quick.
std::string refusal_of_path(const std::string& path) {
  const auto start = std::chrono::steady_clock::now();
  try {
    gguf_file::open(path);
  } catch (const model_error& error) {
    const std::string line = error.what();
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
    CHECK(line.find('\n') == line.npos);
    CHECK(line.starts_with(path + ": "));
    return line.substr(path.size() + 2);
  }
  return "no error";
}

std::string refusal_of(const std::string& bytes) {
  const temporary_file file(bytes);
  return refusal_of_path(file.path());
}

std::string refusal_of(const gguf_writer& writer) {
  return refusal_of(writer.bytes());
}

gguf_writer one_tensor(const std::vector<std::uint64_t>& shape, std::uint32_t type = 0,
                       std::uint64_t offset = 0) {
  gguf_writer writer;
  writer.tensor_at("w", shape, type, offset).data(std::string(64, 'x'));
  return writer;
}

}  // namespace

TEST_CASE("C200 gguf: zero and huge dimensions are refused with the field's name") {
  CHECK(refusal_of(one_tensor({4, 0})) ==
        "tensor \"w\": shape[1] is 0, expected 1 to 1099511627776");
  CHECK(refusal_of(one_tensor({1ull << 63})) ==
        "tensor \"w\": shape[0] is 9223372036854775808, expected 1 to 1099511627776");
  CHECK(refusal_of(one_tensor({1ull << 40, 1ull << 40})) ==
        "tensor \"w\": the product of its dimensions does not fit 64 bits");
  CHECK(refusal_of(one_tensor({})) == "tensor \"w\": n_dims is 0, expected 1 to 4");
  CHECK(refusal_of(one_tensor({1, 1, 1, 1, 1})) == "tensor \"w\": n_dims is 5, expected 1 to 4");
}

TEST_CASE("C200 gguf: empty and repeated names are refused") {
  CHECK(refusal_of(gguf_writer().u32("", 1)) == "key 0: empty");
  CHECK(refusal_of(gguf_writer().u32("k", 1).u32("k", 1)) == "key \"k\": appears twice");
  CHECK(refusal_of(gguf_writer().tensor("w", {1}, 0, "abcd").tensor("w", {1}, 0, "abcd")) ==
        "tensor \"w\": appears twice");
  CHECK(refusal_of(gguf_writer().tensor("", {1}, 0, "abcd")) == "name of tensor 0: empty");
}

TEST_CASE(
    "C202 gguf: tensor offsets that wrap, pass the end, overlap or are not aligned are refused") {
  CHECK(refusal_of(one_tensor({16}, 0, ~0ull - 63)) ==
        "tensor \"w\": offset 18446744073709551552 plus its 64 bytes does not fit 64 bits");
  CHECK(refusal_of(one_tensor({16}, 0, ~0ull - 95)) ==
        "tensor \"w\": offset 18446744073709551520 plus its 64 bytes does not fit 64 bits");
  // 24 header bytes and 33 of the tensor's entry, padded to 64; then the data.
  CHECK(refusal_of(one_tensor({16})) == "no error");
  CHECK(
      refusal_of(one_tensor({17})) ==
      "tensor \"w\": offset 0 plus its 68 bytes lies past the end; truncated or damaged: expected "
      "132 bytes, the file has 128");
  CHECK(refusal_of(one_tensor({1}, 0, 4)) ==
        "tensor \"w\": offset 4 is not a multiple of the alignment 32");
  gguf_writer overlapping;
  overlapping.tensor_at("a", {9}, 0, 0).tensor_at("b", {1}, 0, 32).data(std::string(64, 'x'));
  CHECK(refusal_of(overlapping) ==
        "tensor \"b\": offset 32 overlaps tensor \"a\", which ends at 36");
  gguf_writer same;
  same.tensor_at("a", {1}, 0, 32).tensor_at("b", {1}, 0, 32).data(std::string(64, 'x'));
  CHECK(refusal_of(same).find("overlaps tensor") != std::string::npos);
}

TEST_CASE("C203 gguf: the default model cut short is refused with expected and actual size") {
  const auto model = default_model_path();
  const auto whole = std::filesystem::file_size(model);
  // The sizes that matter are written once and shrunk in place, so the big copy is made once.
  const temporary_file cut("");
  std::filesystem::copy_file(model, cut.path(), std::filesystem::copy_options::overwrite_existing);
  for (const std::uint64_t size :
       {whole - 1, whole / 2, std::uint64_t{1'000'000}, std::uint64_t{1000}, std::uint64_t{24},
        std::uint64_t{3}, std::uint64_t{0}}) {
    std::filesystem::resize_file(cut.path(), size);
    const auto line = refusal_of_path(cut.path());
    INFO(line);
    CHECK(line.find("truncated") != line.npos);
    CHECK(line.find("expected ") != line.npos);
    CHECK(line.find(size >= 24 ? "the file has " + std::to_string(size)
                               : "has " + std::to_string(size)) != line.npos);
    if (size >= whole / 2)
      CHECK(line.find("expected " + std::to_string(whole) + " bytes") != line.npos);
  }
}

TEST_CASE("C203 gguf: a small model cut at every length is refused") {
  const auto bytes = tiny_llama_bytes(
      {.layers = 1, .width = 32, .ffn_width = 32, .heads = 2, .kv_heads = 1, .type = 3});
  const temporary_file file("");
  const auto metadata =
      tiny_llama_metadata({.layers = 1, .width = 32, .ffn_width = 32, .heads = 2, .kv_heads = 1})
          .bytes()
          .size();
  std::size_t refused = 0, tried = 0;
  for (std::size_t size = 0; size < bytes.size(); size += size < metadata ? 7 : 97) {
    file.write(std::string_view(bytes).substr(0, size));
    ++tried;
    try {
      gguf_file::open(file.path());
    } catch (const model_error&) {
      ++refused;
    }
  }
  CHECK(tried > 500);
  CHECK(refused == tried);
}

TEST_CASE("C205 gguf: other magics and versions are refused with what was found") {
  const std::string rest(64, '\0');
  CHECK(refusal_of("GGML" + rest) ==
        "magic is \"GGML\", expected \"GGUF\" (this is a file of the older ggml formats)");
  CHECK(refusal_of("PK\x03\x04" + rest) == "magic is \"PK\\x03\\x04\", expected \"GGUF\"");
  CHECK(refusal_of("FUGG" + rest) ==
        "magic is \"FUGG\", expected \"GGUF\" (this looks like a byte-swapped file)");
  const std::string header = R"({"__metadata__":{"format":"pt"}})";
  CHECK(refusal_of(number_bytes(std::uint64_t{header.size()}) + header) ==
        "magic is \" \\x00\\x00\\x00\", expected \"GGUF\" (this looks like a safetensors file)");
  for (const std::uint32_t version : {0u, 1u, 99u}) {
    gguf_writer writer;
    writer.version = version;
    CHECK(refusal_of(writer) == "version: " + std::to_string(version) + ", supported are 2 and 3");
  }
  gguf_writer swapped;
  swapped.version = 0x03000000;
  CHECK(refusal_of(swapped) ==
        "version: 3 in big-endian order; only little-endian files are supported");
}

TEST_CASE("C205 gguf: counts that the file cannot hold are refused") {
  gguf_writer tensors, entries, both;
  tensors.tensor_count = 1ull << 61;
  entries.entry_count = 1ull << 61;
  both.tensor_count = both.entry_count = ~0ull;
  CHECK(refusal_of(tensors) ==
        "n_tensors: 2305843009213693952; truncated or damaged: the file has 24 bytes, expected at "
        "least 2^56");
  CHECK(refusal_of(entries) ==
        "n_kv: 2305843009213693952; truncated or damaged: the file has 24 bytes, expected at least "
        "2^56");
  CHECK(refusal_of(both).starts_with("n_kv: 18446744073709551615"));
  gguf_writer many;
  many.entry_count = 70'000;
  CHECK(refusal_of(many.bytes() + std::string(2'000'000, '\0')) ==
        "n_kv: 70000, at most 65536 are allowed");
}

TEST_CASE("C205 gguf: what is not a regular file is refused before anything is read") {
  CHECK(refusal_of_path("/dev/zero") == "is not a regular file, expected a GGUF file");
  CHECK(refusal_of_path(std::filesystem::temp_directory_path().string()) ==
        "is a directory, expected a GGUF file");
  CHECK(refusal_of_path("/nonexistent/model.gguf") == "cannot open: No such file or directory");
  CHECK(refusal_of("") == "header: truncated: expected at least 24 bytes, the file has 0");
}

TEST_CASE("C205 gguf: tensor types that cannot be loaded are named") {
  const std::string supported =
      ", supported are F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K and BF16";
  CHECK(refusal_of(one_tensor({256}, 10)) == "tensor \"w\": type is Q2_K (type 10)" + supported);
  CHECK(refusal_of(one_tensor({32}, 39)) == "tensor \"w\": type is MXFP4 (type 39)" + supported);
  for (const std::uint32_t type : {4u, 31u, 38u, 40u, 4000u, ~0u}) {
    CHECK(refusal_of(one_tensor({32}, type)) ==
          "tensor \"w\": type is unknown (type " + std::to_string(type) + ")" + supported);
  }
}

TEST_CASE("C205 gguf: rows that do not fill a type's blocks are refused with both numbers") {
  CHECK(refusal_of(one_tensor({33}, 2)) ==
        "tensor \"w\": shape[0] is 33, not a multiple of the 32 elements of a Q4_0 block");
  CHECK(refusal_of(one_tensor({48, 2}, 7)) ==
        "tensor \"w\": shape[0] is 48, not a multiple of the 32 elements of a Q5_1 block");
  for (const auto& [type, name] : std::vector<std::pair<std::uint32_t, std::string>>{
           {12, "Q4_K"}, {13, "Q5_K"}, {14, "Q6_K"}}) {
    CHECK(refusal_of(one_tensor({576, 16}, type)) ==
          "tensor \"w\": shape[0] is 576, not a multiple of the 256 elements of a " + name +
              " block");
  }
}

TEST_CASE("C205 gguf: a tensor opened for inspection is checked like any other") {
  const temporary_file file("");
  const auto refused = [&](const std::string& bytes) {
    file.write(bytes);
    try {
      gguf_file::open_any(file.path());
    } catch (const model_error& error) {
      return std::string(error.what()).substr(file.path().size() + 2);
    }
    return std::string("no error");
  };
  CHECK(refused(one_tensor({256}, 10).bytes()).starts_with("tensor \"w\": offset 0 plus its 84"));
  CHECK(refused(one_tensor({255}, 10).bytes()) ==
        "tensor \"w\": shape[0] is 255, not a multiple of the 256 elements of a Q2_K block");
  CHECK(refused(one_tensor({32}, 4000, 1 << 20).bytes())
            .starts_with("tensor \"w\": offset 1048576 plus its 0 bytes lies past the end"));
  CHECK(refused(one_tensor({32}, 4000, ~0ull - 31).bytes()).ends_with("does not fit 64 bits"));
  CHECK(refused(one_tensor({32}, 4000).bytes()) == "no error");
}

TEST_CASE("gguf: damaged values are refused with the key's name") {
  CHECK(refusal_of(gguf_writer().raw("k", 13, "xxxxxxxx")) ==
        "key \"k\": unknown value type 13, expected 0 to 12");
  CHECK(refusal_of(gguf_writer().raw("k", 7, "\x02")) ==
        "key \"k\": a bool of value 2, expected 0 or 1");
  CHECK(refusal_of(gguf_writer().array("k", 9, 1, std::string(64, '\0'))) ==
        "key \"k\": an array of arrays, which is not supported");
  CHECK(refusal_of(gguf_writer().array("k", 77, 1, "x")) ==
        "key \"k\": unknown array element type 77, expected 0 to 12");
  CHECK(refusal_of(gguf_writer().array("k", 8, 1ull << 60, ""))
            .starts_with("key \"k\": an array of 1152921504606846976 elements; truncated or "
                         "damaged: expected at least 2^56 bytes"));
  CHECK(refusal_of(gguf_writer().array("k", 10, 1, number_bytes(~0ull))) ==
        "key \"k\": element 0 is 18446744073709551615, at most 2^63-1 is supported");
  CHECK(refusal_of(gguf_writer().raw("k", 8, number_bytes(~0ull)))
            .starts_with("key \"k\": needs 18446744073709551615 bytes"));
  CHECK(refusal_of(gguf_writer().u32("general.alignment", 33))
            .starts_with("general.alignment: 33, expected a power of two"));
  CHECK(refusal_of(gguf_writer().u32("general.alignment", 0))
            .starts_with("general.alignment: 0, expected a power of two"));
}

TEST_CASE("gguf: an array that would take much memory is refused by its count") {
  CHECK(
      refusal_of(gguf_writer().array("k", 0, (1ull << 24) + 1, std::string((1u << 24) + 1, 'x'))) ==
      "key \"k\": the file's arrays hold 16777217 elements, at most 16777216 are allowed");
}

TEST_CASE("gguf: control characters in names of the file do not reach the message") {
  CHECK(refusal_of(gguf_writer().raw("a\n\x1b[31m\"", 13, "")) ==
        "key \"a\\x0a\\x1b[31m\\x22\": unknown value type 13, expected 0 to 12");
}

TEST_CASE("gguf: a small model with flipped bytes is loaded or refused, nothing else") {
  const tiny_llama model{
      .layers = 1, .width = 32, .ffn_width = 32, .heads = 2, .kv_heads = 1, .type = 2};
  const auto bytes = tiny_llama_bytes(model);
  const auto header =
      tiny_llama_metadata(model).bytes().size() + 700;  // about where the tensors' entries end
  const temporary_file file("");
  std::mt19937_64 random(20240905);
  int loaded = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    auto damaged = bytes;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips) {
      // Mostly the structures in front, where a flip matters.
      const auto reach = random() % 4 == 0 ? bytes.size() : header;
      const auto at = random() % reach;
      damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1u << (random() % 8)));
    }
    file.write(damaged);
    try {
      const auto opened = gguf_file::open(file.path());
      model_config::from_gguf(opened);
      const auto vocabulary = tokenizer::from_gguf(opened);
      unsigned sum = 0;  // touch every byte a tensor claims
      for (const auto& tensor : opened.tensors()) {
        for (const auto byte : tensor.data) sum += static_cast<unsigned>(byte);
      }
      ++loaded;
      CHECK(vocabulary.vocab_size() + sum > 0);
    } catch (const model_error&) {
      ++refused;
    }
  }
  CHECK(loaded + refused == 3000);
  CHECK(loaded > 100);
  CHECK(refused > 100);
}
