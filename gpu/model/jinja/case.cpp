// Upper and lower case as Python's str has them. Trust follows every character, also where one
// becomes several.
#include <utf8proc.h>

#include "gpu/model/jinja/functions.hpp"

namespace troupe::gpu::jinja {
namespace {

enum class letter_case { upper, lower, title, same };

char32_t simple_case(char32_t c, letter_case wanted) {
  const auto code = static_cast<utf8proc_int32_t>(c);
  return static_cast<char32_t>(wanted == letter_case::upper   ? utf8proc_toupper(code)
                               : wanted == letter_case::lower ? utf8proc_tolower(code)
                                                              : utf8proc_totitle(code));
}

bool is_title(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LT;
}
bool is_lower(char32_t c) {
  return utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0;
}
bool is_upper(char32_t c) {
  return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0;
}

/// Appends `c` in the wanted case: one character, or several where Unicode says so.
void append_cased(std::string& out, char32_t c, letter_case wanted) {
  constexpr char32_t dotted_i = 0x130, capital_sharp_s = 0x1E9E, sharp_s = 0xDF,
                     n_with_mark = 0x149;
  if (wanted == letter_case::same) return append_utf8(out, c);
  // Almost every character of a template; no table is needed.
  if (c < 0x80) return append_utf8(out, simple_case(c, wanted));
  // SpecialCasing.txt: i and a combining dot above. Its simple mapping would lose the dot.
  if (c == dotted_i && wanted == letter_case::lower) {
    out += "i\xCC\x87";
    return;
  }
  utf8proc_int32_t folded[8];
  int bound_class = 0;
  // Every character with a long upper or title case has a long case folding, whose letters in upper
  // case they are. Two have a long folding alone.
  const auto count = wanted == letter_case::lower || c == dotted_i || c == capital_sharp_s
                         ? 1
                         : utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded, 8,
                                                   UTF8PROC_CASEFOLD, &bound_class);
  const auto simple = simple_case(c, wanted);
  // Digraphs such as U+01C6 have a title case of their own, one character; the German sharp s
  // becomes "Ss".
  const bool one_title =
      wanted == letter_case::title && c != sharp_s && (simple != c || is_title(c));
  if (count < 2 || one_title) return append_utf8(out, simple);
  for (int i = 0; i < count; ++i) {
    const bool small = wanted == letter_case::title && i > 0 && c != n_with_mark;
    const auto part = static_cast<char32_t>(folded[i]);
    // Greek with iota below: in title case the mark stays below (U+0345).
    const char32_t iota = 0x3B9, iota_below = 0x345;
    append_utf8(out, !small         ? simple_case(part, letter_case::upper)
                     : part == iota ? iota_below
                                    : simple_case(part, letter_case::lower));
  }
}

/// The property Cased, from what utf8proc has of it.
bool is_cased(char32_t c) {
  const auto code = static_cast<utf8proc_int32_t>(c);
  const auto category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT || is_lower(c) || is_upper(c);
}

/// What a final sigma looks through.
bool is_case_ignorable(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      break;
  }
  for (const char32_t other : {0x27, 0x2E, 0x3A, 0xB7, 0x387, 0x55F, 0x5F4, 0x2018, 0x2019, 0x2024,
                               0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A}) {
    if (c == other) return true;
  }
  return false;
}

/// Whether the next character of `rest` that counts is cased.
bool goes_on(std::string_view rest) {
  while (!rest.empty()) {
    const auto step = next_utf8(rest);
    if (!is_case_ignorable(step.code)) return is_cased(step.code);
    rest.remove_prefix(step.length);
  }
  return false;
}

/// Every character in the case that `choose(character)` answers; ill-formed bytes stay as they are.
template <class F>
text recased(const text& in, F choose) {
  constexpr char32_t capital_sigma = 0x3A3;
  constexpr std::string_view final_sigma = "\xCF\x82";
  text out;
  std::string bytes;
  bool cased_before = false;  // the last character that counts; then a sigma may end a word
  std::size_t base = 0;       // of the run
  in.for_each_run(0, in.size(), [&](std::string_view run, bool trusted) {
    bytes.clear();
    for (std::size_t at = 0; at < run.size();) {
      const auto step = next_utf8(run.substr(at));
      // Of the whole text: the word may go on in a run of other trust.
      const auto after = std::string_view(in.str()).substr(base + at + step.length);
      const letter_case wanted = choose(step.code);
      if (step.state != utf8_state::whole)
        bytes += run.substr(at, step.length);
      else if (step.code == capital_sigma && wanted == letter_case::lower && cased_before &&
               !goes_on(after))
        bytes += final_sigma;
      else
        append_cased(bytes, step.code, wanted);
      if (!is_case_ignorable(step.code)) cased_before = is_cased(step.code);
      at += step.length;
    }
    base += run.size();
    out.append(bytes, trusted);
  });
  return out;
}

}  // namespace

text upper(const text& in) {
  return recased(in, [](char32_t) { return letter_case::upper; });
}
text lower(const text& in) {
  return recased(in, [](char32_t) { return letter_case::lower; });
}

text capitalized(const text& in) {
  bool first = true;
  return recased(in, [&](char32_t) {
    return std::exchange(first, false) ? letter_case::title : letter_case::lower;
  });
}

text swapped_case(const text& in) {
  return recased(in, [](char32_t c) {
    return is_upper(c) ? letter_case::lower : is_lower(c) ? letter_case::upper : letter_case::same;
  });
}

bool is_in_case(const text& in, bool upper_case) {
  // As str.isupper: at least one cased character, and none of another case.
  bool some = false, other = false;
  for_each_character(in.str(), [&](auto, auto, char32_t c) {
    some = some || (upper_case ? is_upper(c) : is_lower(c));
    other = other || is_title(c) || (upper_case ? is_lower(c) : is_upper(c));
  });
  return some && !other;
}

text titled(const text& in, bool after_any) {
  bool start = true;
  return recased(in, [&](char32_t c) {
    const auto wanted = !start      ? letter_case::lower
                        : after_any ? letter_case::title
                                    : letter_case::upper;
    if (after_any)
      start = !is_cased(c);
    else
      start = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    return wanted;
  });
}

}  // namespace troupe::gpu::jinja
