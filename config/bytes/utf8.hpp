// One step through UTF-8 text: the next code point, or the ill-formed bytes that stand in its
// place. Strict (no overlong forms, surrogates or code points past U+10FFFF) and never reads past
// the text. Ill-formed bytes are cut as Unicode recommends: at the longest start of a character
// that could still have become one (maximal subpart, Unicode 16, section 3.9).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

enum class utf8_state : std::uint8_t {
  whole,      ///< a code point
  invalid,    ///< bytes that no continuation could make valid
  incomplete  ///< the text ends inside a character that is valid so far
};

struct utf8_step {
  char32_t code = 0xFFFD;
  std::uint8_t length = 0;  ///< bytes consumed: the character, or the maximal ill-formed subpart
  utf8_state state = utf8_state::invalid;
};

/// A byte inside a character: not its first.
inline bool continues_utf8(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// `text` must not be empty.
inline utf8_step next_utf8(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1, utf8_state::whole};
  if (lead < 0xC2 || lead > 0xF4) return {0xFFFD, 1, utf8_state::invalid};
  const int following = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  // The first continuation byte has a narrower range after some leads: overlong forms, surrogates,
  // the top.
  unsigned char low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  char32_t code = lead & (0x3Fu >> following);
  for (int i = 1; i <= following; ++i) {
    const auto length = static_cast<std::uint8_t>(i);
    if (static_cast<std::size_t>(i) == text.size()) return {0xFFFD, length, utf8_state::incomplete};
    const auto byte = static_cast<unsigned char>(text[static_cast<std::size_t>(i)]);
    if (byte < low || byte > high) return {0xFFFD, length, utf8_state::invalid};
    code = (code << 6) | (byte & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {code, static_cast<std::uint8_t>(following + 1), utf8_state::whole};
}

inline void append_utf8(std::string& out, char32_t code) {
  const auto push = [&](char32_t byte) {
    out += static_cast<char>(static_cast<unsigned char>(byte));
  };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xC0 | (code >> 6));
    push(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    push(0xE0 | (code >> 12));
    push(0x80 | ((code >> 6) & 0x3F));
    push(0x80 | (code & 0x3F));
  } else {
    push(0xF0 | (code >> 18));
    push(0x80 | ((code >> 12) & 0x3F));
    push(0x80 | ((code >> 6) & 0x3F));
    push(0x80 | (code & 0x3F));
  }
}

inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

}  // namespace troupe
