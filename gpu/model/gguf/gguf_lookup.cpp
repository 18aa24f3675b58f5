// The typed look-ups of gguf_file: one place that says what was found and what was expected.
#include "gpu/model/gguf/gguf.hpp"
#include "gpu/model/gguf/gguf_reader.hpp"

namespace troupe::gpu {
namespace {

struct kind_word {
  const char* operator()(std::int64_t) const { return "int"; }
  const char* operator()(std::uint64_t) const { return "uint"; }
  const char* operator()(double) const { return "float"; }
  const char* operator()(bool) const { return "bool"; }
  const char* operator()(const std::string&) const { return "string"; }
  const char* operator()(const std::vector<std::string>&) const { return "strings"; }
  const char* operator()(const std::vector<std::int64_t>&) const { return "ints"; }
  const char* operator()(const std::vector<double>&) const { return "floats"; }
  const char* operator()(const std::vector<bool>&) const { return "bools"; }
};

struct kind_text {
  const char* operator()(std::int64_t) const { return "a signed integer"; }
  const char* operator()(std::uint64_t) const { return "an unsigned integer"; }
  const char* operator()(double) const { return "a float"; }
  const char* operator()(bool) const { return "a bool"; }
  const char* operator()(const std::string&) const { return "a string"; }
  const char* operator()(const std::vector<std::string>&) const { return "an array of strings"; }
  const char* operator()(const std::vector<std::int64_t>&) const { return "an array of integers"; }
  const char* operator()(const std::vector<double>&) const { return "an array of floats"; }
  const char* operator()(const std::vector<bool>&) const { return "an array of bools"; }
};

// Integers of every width are one kind here and floats another; the two never stand for each other,
// because a number written as the other kind is more likely another key's value.
using value_map = std::map<std::string, gguf_value, std::less<>>;

template <class T>
const T* find_typed(const gguf_file& file, const value_map& values, std::string_view key,
                    const char* expected) {
  const auto found = values.find(key);
  if (found == values.end()) return nullptr;
  const auto* value = std::get_if<T>(&found->second);
  if (value == nullptr) {
    file.fail(std::string(key) + ": is " + std::visit(kind_text{}, found->second) + ", expected " +
              expected);
  }
  return value;
}

[[noreturn]] void fail_missing(const gguf_file& file, std::string_view key, const char* expected) {
  file.fail(std::string(key) + ": missing, expected " + expected);
}

}  // namespace

const char* kind_of(const gguf_value& value) {
  return std::visit(kind_word{}, value);
}

std::optional<std::uint64_t> gguf_file::find_uint(std::string_view key) const {
  const auto found = values_.find(key);
  if (found != values_.end()) {
    // Writers differ in the width and sign they use; only the value's range matters.
    if (const auto* whole = std::get_if<std::int64_t>(&found->second)) {
      if (*whole < 0)
        fail(std::string(key) + ": is " + std::to_string(*whole) + ", expected at least 0");
      return static_cast<std::uint64_t>(*whole);
    }
  }
  const auto* value = find_typed<std::uint64_t>(*this, values_, key, "an unsigned integer");
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<double> gguf_file::find_float(std::string_view key) const {
  const auto* value = find_typed<double>(*this, values_, key, "a float");
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<bool> gguf_file::find_bool(std::string_view key) const {
  const auto* value = find_typed<bool>(*this, values_, key, "a bool");
  return value == nullptr ? std::nullopt : std::optional(*value);
}

const std::string* gguf_file::find_string(std::string_view key) const {
  return find_typed<std::string>(*this, values_, key, "a string");
}

const std::vector<std::string>* gguf_file::find_strings(std::string_view key) const {
  return find_typed<std::vector<std::string>>(*this, values_, key, "an array of strings");
}

const std::vector<std::int64_t>* gguf_file::find_ints(std::string_view key) const {
  return find_typed<std::vector<std::int64_t>>(*this, values_, key, "an array of integers");
}

std::uint64_t gguf_file::get_uint(std::string_view key) const {
  const auto value = find_uint(key);
  if (!value) fail_missing(*this, key, "an unsigned integer");
  return *value;
}

double gguf_file::get_float(std::string_view key) const {
  const auto value = find_float(key);
  if (!value) fail_missing(*this, key, "a float");
  return *value;
}

const std::string& gguf_file::get_string(std::string_view key) const {
  const auto* value = find_string(key);
  if (value == nullptr) fail_missing(*this, key, "a string");
  return *value;
}

const std::vector<std::string>& gguf_file::get_strings(std::string_view key) const {
  const auto* value = find_strings(key);
  if (value == nullptr) fail_missing(*this, key, "an array of strings");
  return *value;
}

const gguf_tensor* gguf_file::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace troupe::gpu
