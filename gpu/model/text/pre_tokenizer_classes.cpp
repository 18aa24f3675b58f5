#include "gpu/model/text/pre_tokenizer_classes.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "config/bytes/utf8.hpp"

namespace troupe::gpu {
namespace {

struct code_range {
  char32_t first, last;
};

// Letters and numbers of Unicode 15.1 and 16, which utf8proc 2.8 (Unicode 15.0) calls unassigned.
constexpr code_range newer_letters[] = {
    {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3},
    {0x10D4A, 0x10D65}, {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x11380, 0x11389},
    {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113B7},
    {0x113D1, 0x113D1}, {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0}, {0x13460, 0x143FA},
    {0x16100, 0x1611D}, {0x16D40, 0x16D6C}, {0x18CFF, 0x18CFF}, {0x1E5D0, 0x1E5ED},
    {0x1E5F0, 0x1E5F0}, {0x2EBF0, 0x2EE5D}};
constexpr code_range newer_numbers[] = {{0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9},
                                        {0x16130, 0x16139}, {0x16D70, 0x16D79}, {0x1CCF0, 0x1CCF9},
                                        {0x1E5F1, 0x1E5FA}};

template <std::size_t Size>
bool is_in(const code_range (&ranges)[Size], char32_t code) {
  const auto* after = std::upper_bound(std::begin(ranges), std::end(ranges), code,
                                       [](char32_t c, const code_range& r) { return c < r.first; });
  return after != std::begin(ranges) && code <= std::prev(after)->last;
}

char_class classify_wide(char32_t code) {
  switch (code) {  // White_Space; the categories alone would miss the control characters
    case '\t':
    case '\n':
    case '\v':
    case '\f':
    case '\r':
    case ' ':
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000:
      return char_class::space;
    default:
      break;
  }
  if (code >= 0x2000 && code <= 0x200A) return char_class::space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return char_class::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return char_class::number;
    case UTF8PROC_CATEGORY_CN:
      return is_in(newer_letters, code)   ? char_class::letter
             : is_in(newer_numbers, code) ? char_class::number
                                          : char_class::other;
    default:
      return char_class::other;
  }
}

}  // namespace

char_class classify(char32_t code) {
  static const auto ascii = [] {
    std::array<char_class, 128> out{};
    for (char32_t c = 0; c < out.size(); ++c) out[c] = classify_wide(c);
    return out;
  }();
  return code < ascii.size() ? ascii[code] : classify_wide(code);
}

scanned_char look_at(std::string_view text, std::size_t at) {
  const auto step = next_utf8(text.substr(at));
  if (step.state != utf8_state::whole) return {char_class::other, step.length};
  return {classify(step.code), step.length};
}

}  // namespace troupe::gpu
