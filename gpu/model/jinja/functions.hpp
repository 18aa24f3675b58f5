// The filters, tests, methods and global functions of the template engine, by name. Each fails
// through the guard for an unknown name, for too many or unknown arguments, and for kinds of values
// it cannot work on.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/model/jinja/value.hpp"

namespace troupe::gpu::jinja {

struct arguments {
  std::vector<value> positional;
  std::vector<std::pair<std::string, value>> named;
};

/// The arguments in the order of `parameters` (names between spaces); nullptr for one that was not
/// given.
std::vector<const value*> bound_arguments(guard&, const std::string& what,
                                          std::string_view parameters, const arguments&);

value apply_filter(guard&, const std::string& name, const value& input, const arguments&);
bool apply_test(guard&, const std::string& name, const value& input, const arguments&);
value call_method(guard&, const value& object, const std::string& name, const arguments&);
value call_function(guard&, function, const arguments&);
/// +, -, *, /, //, %, ** as Python computes them, with 64-bit integers.
value arithmetic(guard&, const std::string& op, const value& left, const value& right);

/// One filter: what it is called, its parameters (between spaces), what it does.
struct filter {
  const char* name;
  const char* parameters;
  value (*run)(guard&, const value& in, const std::vector<const value*>&);
};
/// Of one value, and of sequences; the last has no name.
extern const filter value_filters[];
extern const filter sequence_filters[];
/// map, select, reject, selectattr, rejectattr.
bool is_choosing_filter(std::string_view name);
value apply_choosing_filter(guard&, const std::string& name, const value& input, const arguments&);

// Text operations shared by filters and methods; each keeps the trust of every character.
text upper(const text&);
text lower(const text&);
text capitalized(const text&);
text swapped_case(const text&);
/// str.isupper, str.islower
bool is_in_case(const text&, bool upper_case);
/// `after_any` true: a letter after anything but a letter is upper (str.title); false: only after
/// white space, hyphens and opening brackets (the title filter).
text titled(const text&, bool after_any);
/// `characters` nullptr: white space.
text stripped(const text&, const text* characters, bool left, bool right);
text replaced(guard&, const text&, const text& old, const text& fresh, std::int64_t count);
/// `separator` nullptr: white space.
value split(guard&, const text&, const text* separator, std::int64_t most);
value split_from_right(guard&, const text&, const text* separator, std::int64_t most);
text joined(guard&, const std::vector<value>&, const text& separator);
/// &, <, >, " and ' as HTML's entities, marked as markup; text that is markup stays as it is.
text escaped(guard&, const text&);
/// Python's bytes.find and rfind; npos when `needle` is nowhere. Linear at worst.
std::size_t find_bytes(std::string_view hay, std::string_view needle, std::size_t from);
std::size_t find_last_bytes(std::string_view hay, std::string_view needle);

// Python's two ways to put values into a text. The format's own characters keep their trust.
/// format % values
text percent_formatted(guard&, const text& format, const value& values);
/// format.format(positional..., named...)
text brace_formatted(guard&, const text& format, const arguments&);

bool is_space(char32_t);    ///< str.isspace
bool is_letter(char32_t);   ///< str.isalpha
bool is_decimal(char32_t);  ///< str.isdecimal
bool is_number(char32_t);   ///< of the categories Nd, Nl and No; with letters: str.isalnum

/// Calls f(begin, end, next) for each line as str.splitlines finds them.
template <class F>
void for_each_line(std::string_view all, F f) {
  std::size_t begin = 0, skip = 0;
  for_each_character(all, [&](std::size_t at, std::size_t after, char32_t c) {
    if (at < skip) return;
    const bool ends = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                      c == 0x2028 || c == 0x2029;
    if (!ends) return;
    skip = c == '\r' && all.substr(after).starts_with('\n') ? after + 1 : after;
    f(begin, at, skip);
    begin = skip;
  });
  if (begin < all.size()) f(begin, all.size(), all.size());
}

}  // namespace troupe::gpu::jinja
