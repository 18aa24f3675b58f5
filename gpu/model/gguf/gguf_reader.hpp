// A bounds-checked cursor over the bytes of a GGUF file, and the reading of its metadata values.
// Private to gguf.cpp. Every read is compared with the bytes that are left; it never trusts a count
// or a length.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "gpu/model/gguf/gguf.hpp"

namespace troupe::gpu {

/// Limits on what a file may ask for, beyond what its size already bounds.
struct gguf_limits {
  static constexpr std::uint64_t entries_max = 65'536;  ///< metadata keys, and tensors
  static constexpr std::uint64_t key_bytes_max = 65'535;
  static constexpr std::uint64_t tensor_name_bytes_max = 255;
  static constexpr std::uint64_t string_bytes_max = 16ull << 20;
  static constexpr std::uint64_t array_elements_max = 1ull
                                                      << 24;  ///< of all arrays of a file together
  static constexpr std::uint64_t dimension_max = 1ull << 40;
  static constexpr std::uint64_t alignment_max = 1ull << 20;
};

/// A name out of a file, safe to print: quoted, cut at 80 bytes, everything but printable ASCII
/// escaped.
std::string shown(std::string_view name);

class gguf_reader {
 public:
  gguf_reader(const gguf_file& file, std::span<const std::byte> bytes)
      : file_(file), bytes_(bytes) {}

  std::uint64_t position() const { return at_; }
  std::uint64_t left() const { return bytes_.size() - at_; }

  /// The next little-endian number. `field` names what is read, for the error of a truncated file.
  std::uint32_t u32(std::string_view field);
  std::uint64_t u64(std::string_view field);
  /// A length and that many bytes.
  std::string_view text(std::string_view field, std::uint64_t bytes_max);
  /// A type number and its value; arrays of arrays are refused.
  gguf_value value(std::string_view key);

 private:
  template <class T>
  T read(std::string_view field);
  void need(std::uint64_t count, std::string_view field) const;
  gguf_value scalar(std::uint32_t type, std::string_view key);
  gguf_value array(std::string_view key);
  std::vector<std::int64_t> integers(std::uint32_t type, std::uint64_t count, std::string_view key);

  const gguf_file& file_;
  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
  std::uint64_t array_elements_ = 0;
};

}  // namespace troupe::gpu
