#include "gpu/model/gguf/gguf_reader.hpp"

#include <cstring>
#include <limits>

namespace troupe::gpu {
namespace {

// The file format's numbers for value types.
enum value_type : std::uint32_t {
  type_u8,
  type_i8,
  type_u16,
  type_i16,
  type_u32,
  type_i32,
  type_f32,
  type_bool,
  type_string,
  type_array,
  type_u64,
  type_i64,
  type_f64,
  type_count
};

// Bytes of one value; for a string the least it can take.
constexpr std::uint64_t least_bytes[type_count] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

}  // namespace

std::string shown(std::string_view name) {
  constexpr std::size_t shown_max = 80;
  constexpr char hex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : name.substr(0, shown_max)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e || c == '"' || c == '\\') {
      out += "\\x";
      out += hex[byte >> 4];
      out += hex[byte & 15];
    } else {
      out += c;
    }
  }
  return out += name.size() > shown_max ? "...\"" : "\"";
}

void gguf_reader::need(std::uint64_t count, std::string_view field) const {
  if (count <= left()) return;
  // A length near 2^64 is a damaged field rather than a truncated file: its sum would mean nothing.
  const bool sum_fits = count <= std::numeric_limits<std::uint64_t>::max() - at_;
  file_.fail(std::string(field) + ": needs " + std::to_string(count) + " bytes at byte " +
             std::to_string(at_) + "; truncated or damaged: expected at least " +
             (sum_fits ? std::to_string(at_ + count) : std::string("2^64")) +
             " bytes, the file has " + std::to_string(bytes_.size()));
}

template <class T>
T gguf_reader::read(std::string_view field) {
  need(sizeof(T), field);
  T out;
  // Copied, since fields are not aligned.
  std::memcpy(&out, bytes_.data() + at_, sizeof(T));
  at_ += sizeof(T);
  return out;
}

std::uint32_t gguf_reader::u32(std::string_view field) {
  return read<std::uint32_t>(field);
}
std::uint64_t gguf_reader::u64(std::string_view field) {
  return read<std::uint64_t>(field);
}

std::string_view gguf_reader::text(std::string_view field, std::uint64_t bytes_max) {
  const auto length = u64(field);
  need(length, field);
  if (length > bytes_max) {
    file_.fail(std::string(field) + ": a string of " + std::to_string(length) + " bytes, at most " +
               std::to_string(bytes_max) + " are allowed");
  }
  const std::string_view out(reinterpret_cast<const char*>(bytes_.data()) + at_, length);
  at_ += length;
  return out;
}

gguf_value gguf_reader::value(std::string_view key) {
  const auto type = u32(key);
  return type == type_array ? array(key) : scalar(type, key);
}

gguf_value gguf_reader::scalar(std::uint32_t type, std::string_view key) {
  switch (type) {
    case type_u8:
      return std::uint64_t{read<std::uint8_t>(key)};
    case type_u16:
      return std::uint64_t{read<std::uint16_t>(key)};
    case type_u32:
      return std::uint64_t{read<std::uint32_t>(key)};
    case type_u64:
      return read<std::uint64_t>(key);
    case type_i8:
      return std::int64_t{read<std::int8_t>(key)};
    case type_i16:
      return std::int64_t{read<std::int16_t>(key)};
    case type_i32:
      return std::int64_t{read<std::int32_t>(key)};
    case type_i64:
      return read<std::int64_t>(key);
    case type_f32:
      return double{read<float>(key)};
    case type_f64:
      return read<double>(key);
    case type_string:
      return std::string(text(key, gguf_limits::string_bytes_max));
    case type_bool: {
      const auto byte = read<std::uint8_t>(key);
      if (byte > 1)
        file_.fail(std::string(key) + ": a bool of value " + std::to_string(byte) +
                   ", expected 0 or 1");
      return byte == 1;
    }
    default:
      file_.fail(std::string(key) + ": unknown value type " + std::to_string(type) +
                 ", expected 0 to 12");
  }
}

gguf_value gguf_reader::array(std::string_view key) {
  const auto type = u32(key);
  const auto count = u64(key);
  if (type == type_array)
    file_.fail(std::string(key) + ": an array of arrays, which is not supported");
  if (type >= type_count) {
    file_.fail(std::string(key) + ": unknown array element type " + std::to_string(type) +
               ", expected 0 to 12");
  }
  if (count > left() / least_bytes[type]) {
    const bool sum_fits = count < (1ull << 56);
    file_.fail(std::string(key) + ": an array of " + std::to_string(count) +
               " elements; truncated or damaged: expected at least " +
               (sum_fits ? std::to_string(at_ + count * least_bytes[type]) : std::string("2^56")) +
               " bytes, the file has " + std::to_string(bytes_.size()));
  }
  // Of all arrays together: many arrays of a few million would add up as well.
  array_elements_ += count;  // cannot overflow: count is below the file's size
  if (array_elements_ > gguf_limits::array_elements_max) {
    file_.fail(std::string(key) + ": the file's arrays hold " + std::to_string(array_elements_) +
               " elements, at most " + std::to_string(gguf_limits::array_elements_max) +
               " are allowed");
  }
  if (type == type_string) {
    std::vector<std::string> out;
    out.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i)
      out.emplace_back(text(key, gguf_limits::string_bytes_max));
    return out;
  }
  if (type == type_f32 || type == type_f64) {
    std::vector<double> out;
    out.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      out.push_back(type == type_f32 ? double{read<float>(key)} : read<double>(key));
    }
    return out;
  }
  if (type == type_bool) {  // apart from the integers: a key that wants numbers must not take them
    std::vector<bool> out;
    out.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) out.push_back(std::get<bool>(scalar(type, key)));
    return out;
  }
  return integers(type, count, key);
}

std::vector<std::int64_t> gguf_reader::integers(std::uint32_t type, std::uint64_t count,
                                                std::string_view key) {
  std::vector<std::int64_t> out;
  out.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto element = scalar(type, key);
    if (const auto* whole = std::get_if<std::int64_t>(&element)) {
      out.push_back(*whole);
    } else {
      const auto number = std::get<std::uint64_t>(element);
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        file_.fail(std::string(key) + ": element " + std::to_string(i) + " is " +
                   std::to_string(number) + ", at most 2^63-1 is supported");
      }
      out.push_back(static_cast<std::int64_t>(number));
    }
  }
  return out;
}

}  // namespace troupe::gpu
