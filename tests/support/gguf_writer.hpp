// Writes GGUF files for tests: any metadata and tensors, right or wrong on purpose. tiny_llama.hpp
// builds whole models with it. Checks nothing: a test that wants a damaged file gets it.
#pragma once
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::test {

/// The little-endian bytes of a number.
template <class T>
std::string number_bytes(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

/// A length and the bytes, as the format writes strings.
inline std::string counted(std::string_view text) {
  return number_bytes(std::uint64_t{text.size()}) + std::string(text);
}

class gguf_writer {
 public:
  // The header, free to be wrong. Counts default to what was added.
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> tensor_count;
  std::optional<std::uint64_t> entry_count;
  std::uint64_t alignment =
      32;  ///< used to place tensors; add general.alignment yourself when it is not 32

  /// A metadata entry from its type number and the raw bytes of its value.
  gguf_writer& raw(std::string_view key, std::uint32_t type, std::string_view value) {
    entries_ += counted(key) + number_bytes(type) + std::string(value);
    ++entries_added_;
    return *this;
  }
  gguf_writer& u8(std::string_view key, std::uint8_t value) {
    return raw(key, 0, number_bytes(value));
  }
  gguf_writer& u32(std::string_view key, std::uint32_t value) {
    return raw(key, 4, number_bytes(value));
  }
  gguf_writer& i32(std::string_view key, std::int32_t value) {
    return raw(key, 5, number_bytes(value));
  }
  gguf_writer& f32(std::string_view key, float value) { return raw(key, 6, number_bytes(value)); }
  gguf_writer& boolean(std::string_view key, bool value) {
    return raw(key, 7, std::string(1, value ? 1 : 0));
  }
  gguf_writer& text(std::string_view key, std::string_view value) {
    return raw(key, 8, counted(value));
  }
  gguf_writer& u64(std::string_view key, std::uint64_t value) {
    return raw(key, 10, number_bytes(value));
  }
  gguf_writer& i64(std::string_view key, std::int64_t value) {
    return raw(key, 11, number_bytes(value));
  }
  gguf_writer& f64(std::string_view key, double value) { return raw(key, 12, number_bytes(value)); }
  /// An array from its element type, claimed count and the raw bytes of its elements.
  gguf_writer& array(std::string_view key, std::uint32_t type, std::uint64_t count,
                     std::string_view elements) {
    return raw(key, 9, number_bytes(type) + number_bytes(count) + std::string(elements));
  }
  gguf_writer& texts(std::string_view key, const std::vector<std::string>& values) {
    std::string elements;
    for (const auto& value : values) elements += counted(value);
    return array(key, 8, values.size(), elements);
  }
  gguf_writer& i32s(std::string_view key, const std::vector<std::int32_t>& values) {
    std::string elements;
    for (const auto value : values) elements += number_bytes(value);
    return array(key, 5, values.size(), elements);
  }

  /// A tensor whose bytes follow those before it, aligned.
  gguf_writer& tensor(std::string_view name, const std::vector<std::uint64_t>& shape,
                      std::uint32_t type, std::string_view data) {
    pad(data_);
    tensor_at(name, shape, type, data_.size());
    data_ += data;
    return *this;
  }
  /// A tensor entry alone, with any offset.
  gguf_writer& tensor_at(std::string_view name, const std::vector<std::uint64_t>& shape,
                         std::uint32_t type, std::uint64_t offset) {
    tensors_ += counted(name) + number_bytes(static_cast<std::uint32_t>(shape.size()));
    for (const auto dimension : shape) tensors_ += number_bytes(dimension);
    tensors_ += number_bytes(type) + number_bytes(offset);
    ++tensors_added_;
    return *this;
  }
  /// Bytes at the end of the data.
  gguf_writer& data(std::string_view bytes) {
    data_ += bytes;
    return *this;
  }

  std::string bytes() const {
    std::string out = magic + number_bytes(version) +
                      number_bytes(tensor_count.value_or(tensors_added_)) +
                      number_bytes(entry_count.value_or(entries_added_)) + entries_ + tensors_;
    if (!data_.empty()) pad(out);
    return out + data_;
  }

 private:
  void pad(std::string& bytes) const {
    while (bytes.size() % alignment != 0) bytes += '\0';
  }

  std::string entries_, tensors_, data_;
  std::uint64_t entries_added_ = 0, tensors_added_ = 0;
};

}  // namespace troupe::test
