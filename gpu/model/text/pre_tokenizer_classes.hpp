// The Unicode classes that pre-tokenizer rules are written in: \s, \p{L}, \p{N} and the rest. Pure
// functions; never reads past the text, any bytes accepted.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe::gpu {

enum class char_class : std::uint8_t { space, letter, number, other };

/// Of Unicode 16, the version of the tokenizer library that models are made with.
char_class classify(char32_t code);

struct scanned_char {
  char_class kind = char_class::other;
  std::size_t length = 0;  ///< bytes
};

/// The character at `at`, which must be inside; ill-formed bytes are one character of class other.
scanned_char look_at(std::string_view text, std::size_t at);

}  // namespace troupe::gpu
