#include "gpu/model/gguf/split_model.hpp"

#include <filesystem>

namespace troupe::gpu {
namespace {

/// The numbers that gguf-split puts into a part's name are five digits wide.
std::string five_digits(std::uint64_t number) {
  const auto digits = std::to_string(number);
  return digits.size() < 5 ? std::string(5 - digits.size(), '0') + digits : digits;
}

/// The command that joins the parts. The tool wants the first part and finds the others by their
/// names, so it is named exactly where this part's name follows the pattern.
std::string join_command(const std::string& path, std::uint64_t part, std::uint64_t parts) {
  const auto name = std::filesystem::path(path).filename().string();
  const auto ending = [&](std::uint64_t number) {
    return "-" + five_digits(number) + "-of-" + five_digits(parts) + ".gguf";
  };
  if (!name.ends_with(ending(part))) return "llama-gguf-split --merge FIRST-PART.gguf MODEL.gguf";
  const auto model = name.substr(0, name.size() - ending(part).size());
  return "llama-gguf-split --merge " + model + ending(1) + " " + model + ".gguf";
}

}  // namespace

std::string split_refusal(const gguf_file& file) {
  const auto parts = file.find_uint("split.count").value_or(0);
  if (parts < 2) return {};
  const auto index = file.find_uint("split.no");  // counted from 0
  const bool known = index && *index < parts;
  const auto part = known ? *index + 1 : 0;
  const auto count = std::to_string(parts);
  return "split.count: this file is " + (known ? "part " + std::to_string(part) : "one part") +
         " of " + count + " of a split model; split files are not served, join the parts with " +
         "llama.cpp's tool: " + join_command(file.path(), part, parts);
}

}  // namespace troupe::gpu
