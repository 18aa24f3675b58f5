#include "gpu/model/pre_tokenizer.hpp"

#include <utf8proc.h>

#include <array>

#include "gpu/model/utf8.hpp"

namespace troupe::gpu {
namespace {

enum class char_class : std::uint8_t { space, letter, number, other };

/// \s, \p{L}, \p{N} and the rest, over Unicode.
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
    default:
      return char_class::other;
  }
}

char_class classify(char32_t code) {
  static const auto ascii = [] {
    std::array<char_class, 128> out{};
    for (char32_t c = 0; c < out.size(); ++c) out[c] = classify_wide(c);
    return out;
  }();
  return code < ascii.size() ? ascii[code] : classify_wide(code);
}

struct scanned {
  char_class kind = char_class::other;
  std::size_t length = 0;
};

/// The character at `at`; ill-formed bytes are one character of class other.
scanned look(std::string_view text, std::size_t at) {
  const auto step = next_utf8(text.substr(at));
  if (step.state != utf8_state::whole) return {char_class::other, step.length};
  return {classify(step.code), step.length};
}

/// Where the run of `kind` that starts at `at` ends.
std::size_t run_end(std::string_view text, std::size_t at, char_class kind) {
  while (at < text.size()) {
    const auto next = look(text, at);
    if (next.kind != kind) break;
    at += next.length;
  }
  return at;
}

/// The length of one of 's 't 're 've 'm 'll 'd at `at`, or 0.
std::size_t contraction(std::string_view text, std::size_t at) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.substr(at).starts_with(ending)) return ending.size();
  }
  return 0;
}

/// GPT-2's rule, one piece at a time:
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t gpt2_piece_end(std::string_view text, std::size_t at) {
  if (text[at] == '\'') {
    if (const auto length = contraction(text, at); length != 0) return at + length;
  }
  const auto first = look(text, at);
  if (first.kind != char_class::space) return run_end(text, at, first.kind);
  if (text[at] == ' ' && at + 1 < text.size()) {
    const auto second = look(text, at + 1);
    if (second.kind != char_class::space) return run_end(text, at + 1, second.kind);
  }
  // White space: all of it at the end of the text, else all but the last character (which may lead
  // the next piece), else that one character.
  std::size_t end = at, last = at;
  while (end < text.size()) {
    const auto next = look(text, end);
    if (next.kind != char_class::space) break;
    last = end;
    end += next.length;
  }
  return end == text.size() || last == at ? end : last;
}

void gpt2(std::string_view text, std::size_t base, std::vector<std::size_t>& ends) {
  for (std::size_t at = 0; at < text.size();) {
    at = gpt2_piece_end(text, at);
    ends.push_back(base + at);
  }
}

/// Every numeric character is a piece of its own; what lies between goes through GPT-2's rule as if
/// it stood alone.
void smollm(std::string_view text, std::vector<std::size_t>& ends) {
  std::size_t start = 0, at = 0;
  while (at < text.size()) {
    const auto next = look(text, at);
    if (next.kind == char_class::number) {
      gpt2(text.substr(start, at - start), start, ends);
      ends.push_back(at + next.length);
      start = at + next.length;
    }
    at += next.length;
  }
  gpt2(text.substr(start), start, ends);
}

}  // namespace

pre_tokenizer find_pre_tokenizer(std::string_view name) {
  return name == "smollm" ? smollm : nullptr;
}

std::string_view known_pre_tokenizers() {
  return "\"smollm\"";
}

}  // namespace troupe::gpu
