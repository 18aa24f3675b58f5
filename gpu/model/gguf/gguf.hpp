// A GGUF file, mapped read-only and checked completely before anything is read through it: every
// count, length, offset and size is compared with the file's real size, with overflow-safe
// arithmetic. Owns the mapping until release_data(); everything but the tensors' data is copied out
// of it and lives as long as the gguf_file.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gpu/model/gguf/gguf_types.hpp"
#include "gpu/model/model_error.hpp"

namespace troupe::gpu {

struct gguf_tensor {
  std::string name;
  tensor_type type{};                ///< its number as the file has it, known or not
  std::vector<std::uint64_t> shape;  ///< ggml order: shape[0] is the contiguous (input) dimension
  std::span<const std::byte> data;   ///< the tensor's bytes inside the mapping; empty when
                                     ///< the type is unknown or the data was released
  std::uint64_t rows() const;        ///< product of shape[1..]
};

/// A metadata value. Integers of every width and sign widen to 64 bits and floats to double, so a
/// writer that chose another width than usual changes no value; arrays of strings, integers, floats
/// and bools are kept apart and never stand for each other.
using gguf_value =
    std::variant<std::int64_t, std::uint64_t, double, bool, std::string, std::vector<std::string>,
                 std::vector<std::int64_t>, std::vector<double>, std::vector<bool>>;

/// "int", "uint", "float", "bool", "string", "strings", "ints", "floats" or "bools".
const char* kind_of(const gguf_value&);

class gguf_file {
 public:
  /// Maps and checks `path`. Throws model_error; never reads outside the file, never allocates more
  /// than a small multiple of the file's size.
  static gguf_file open(const std::string& path);
  /// The same for a file that is only to be described: every check of the structure, but a tensor
  /// of a type that cannot be loaded stands in tensors() like the others.
  static gguf_file open_any(const std::string& path);
  gguf_file(gguf_file&&) noexcept;
  gguf_file& operator=(gguf_file&&) noexcept;
  ~gguf_file();

  const std::string& path() const { return path_; }
  std::uint64_t size_bytes() const { return size_; }
  std::uint32_t version() const { return version_; }  ///< of the format: 2 or 3
  /// All metadata, in the keys' order.
  const std::map<std::string, gguf_value, std::less<>>& values() const { return values_; }

  /// Typed look-ups. The first form throws model_error naming file, key, and found/expected type
  /// when the key is absent or of another type; find_* answers nothing when absent and still throws
  /// on a wrong type.
  std::uint64_t get_uint(std::string_view key) const;
  double get_float(std::string_view key) const;
  const std::string& get_string(std::string_view key) const;
  const std::vector<std::string>& get_strings(std::string_view key) const;
  std::optional<std::uint64_t> find_uint(std::string_view key) const;
  std::optional<double> find_float(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  const std::string* find_string(std::string_view key) const;
  const std::vector<std::string>* find_strings(std::string_view key) const;
  const std::vector<std::int64_t>* find_ints(std::string_view key) const;

  /// Takes the pages that lie whole in a part of a tensor's data out of this process's memory, for
  /// when it was read; read again, they come from the file.
  void drop_pages(std::span<const std::byte> part) const;
  /// Unmaps the file, for when everything was read: metadata and the list of tensors stay, their
  /// data becomes empty, and what then happens to the file cannot touch this process. To be called
  /// while no other thread reads tensors().
  void release_data();

  const std::vector<gguf_tensor>& tensors() const { return tensors_; }
  const gguf_tensor* find_tensor(std::string_view name) const;

  /// model_error with the file's path in front: "PATH: <what>".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  gguf_file() = default;
  static gguf_file read(const std::string& path, bool any_type);
  void map_file();
  std::string path_;
  void* map_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint32_t version_ = 0;
  std::map<std::string, gguf_value, std::less<>> values_;
  std::vector<gguf_tensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> tensor_index_;
};

}  // namespace troupe::gpu
