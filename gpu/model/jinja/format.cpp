// Python's `format % values` and `format.format(...)`. What is put in keeps its trust, the format's
// own characters and its padding keep that of the format.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "gpu/model/jinja/functions.hpp"

namespace troupe::gpu::jinja {
namespace {

// A template's number must not decide how much memory is used; no real prompt comes near.
constexpr std::int64_t width_max = 100'000;
constexpr std::int64_t precision_max = 300;

/// How one value is written.
struct layout {
  text fill;        ///< one character
  char align = 0;   ///< < > ^, = between sign and digits; 0: the kind's own
  char sign = '-';  ///< + and blank show one for numbers from 0 up
  char group = 0;   ///< , or _ between thousands
  char type = 0;    ///< 0: the kind's own
  std::int64_t width = 0;
  std::int64_t precision = -1;
};

/// Reads decimal digits at `at`; -1 when there are none.
std::int64_t read_number(guard& g, std::string_view from, std::size_t& at, std::int64_t most) {
  std::int64_t out = -1;
  for (; at < from.size() && from[at] >= '0' && from[at] <= '9'; ++at) {
    out = std::max<std::int64_t>(out, 0) * 10 + (from[at] - '0');
    if (out > most) g.fail("format: a number above " + std::to_string(most));
  }
  return out;
}

text padded(guard& g, const text& body, const layout& how, char own_align) {
  std::int64_t size = 0;
  for_each_character(body.str(), [&](auto, auto, char32_t) { ++size; });
  const auto missing = std::max<std::int64_t>(how.width - size, 0);
  const char align = how.align == 0 ? own_align : how.align;
  // In the middle str.format puts the odd one behind.
  const auto before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  text out;
  for (std::int64_t i = 0; i < before; ++i) out.append(how.fill);
  out.append(body);
  for (std::int64_t i = before; i < missing; ++i) out.append(how.fill);
  g.charge(out.size());
  return out;
}

std::string grouped_digits(std::string digits, char separator) {
  // Only the whole part is grouped: a fraction or an exponent ends it.
  auto end = digits.find_first_not_of("0123456789");
  for (auto at = std::min(end, digits.size()); at > 3;) digits.insert(at -= 3, 1, separator);
  return digits;
}

/// Sign, digits and padding of a number; `digits` are those of its magnitude.
text laid_out_number(guard& g, bool negative, std::string digits, const layout& how) {
  if (how.group != 0) digits = grouped_digits(std::move(digits), how.group);
  const std::string sign = negative ? "-" : how.sign == '-' ? "" : std::string(1, how.sign);
  // Numbers go to the right unless the format says otherwise.
  if (how.align != '=') return padded(g, text(sign + digits, true), how, '>');
  if (how.group != 0) g.fail("format: zeros in front of groups are not supported");
  text out(sign, true);
  auto rest = how;
  rest.width -= static_cast<std::int64_t>(sign.size());
  rest.align = '>';
  out.append(padded(g, text(digits, true), rest, '>'));
  return out;
}

text real_text(guard& g, double number, const layout& how) {
  const bool percent = how.type == '%';
  const auto magnitude = std::fabs(percent ? number * 100 : number);
  std::string digits;
  if (std::isnan(number) || std::isinf(number)) {
    digits = std::isnan(number) ? "nan" : "inf";
  } else if (how.type == 0) {
    // Python has a rule of its own for that (neither g nor repr), which no template uses.
    if (how.precision >= 0) g.fail("format: a precision needs a type, such as f");
    digits = float_text(magnitude);
  } else {
    const char type = percent ? 'f' : static_cast<char>(how.type | 0x20);
    const auto style = type == 'f'   ? std::chars_format::fixed
                       : type == 'e' ? std::chars_format::scientific
                                     : std::chars_format::general;
    // Fixed notation of the largest double has 309 digits before the point, and 300 behind it at
    // most.
    char buffer[1024];
    const auto precision = static_cast<int>(how.precision < 0 ? 6 : how.precision);
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, magnitude, style,
                                   // %.0g is %.1g in C and Python.
                                   type == 'g' ? std::max(precision, 1) : precision);
    if (end.ec != std::errc{}) g.fail("format: the number is too long");
    digits.assign(buffer, end.ptr);
  }
  if (how.type == 'E' || how.type == 'G' || how.type == 'F') {
    for (auto& c : digits) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  if (percent) digits += '%';
  return laid_out_number(g, std::signbit(number) && !std::isnan(number), std::move(digits), how);
}

text whole_text(guard& g, std::int64_t number, const layout& how) {
  const int base = how.type == 'x' || how.type == 'X' ? 16
                   : how.type == 'o'                  ? 8
                   : how.type == 'b'                  ? 2
                                                      : 10;
  if (base != 10 && how.group != 0) g.fail("format: groups are for decimal numbers");
  auto magnitude = static_cast<std::uint64_t>(number);
  // Unsigned, so that the least integer has a magnitude, too.
  if (number < 0) magnitude = 0 - magnitude;
  // 64 binary digits.
  char buffer[70];
  std::string digits(buffer, std::to_chars(buffer, buffer + sizeof buffer, magnitude, base).ptr);
  if (how.type == 'X') {
    for (auto& c : digits) c = c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  if (how.precision > static_cast<std::int64_t>(digits.size()))
    digits.insert(0, static_cast<std::size_t>(how.precision) - digits.size(), '0');
  return laid_out_number(g, number < 0, std::move(digits), how);
}

text cut(const text& in, std::int64_t most) {
  if (most < 0) return in;
  std::int64_t count = 0;
  std::size_t end = 0;
  for_each_character(in.str(), [&](std::size_t, std::size_t to, char32_t) {
    if (count++ < most) end = to;
  });
  return in.part(0, end);
}

bool is_one_of(char c, std::string_view set) {
  return set.find(c) != set.npos;
}

/// `room` holds the number of a bool, which is 0 or 1 in a format as well.
const std::int64_t* as_whole(const value& v, std::int64_t& room) {
  if (const auto* b = std::get_if<bool>(&v)) return room = *b ? 1 : 0, &room;
  return std::get_if<std::int64_t>(&v);
}

/// One value of `format % values`.
text percent_value(guard& g, const value& v, const layout& how) {
  if (how.type == 's') return padded(g, cut(printed(g, v), how.precision), how, '>');
  if (how.type == 'r') return padded(g, cut(represented(g, v), how.precision), how, '>');
  std::int64_t room = 0;
  const auto* whole = as_whole(v, room);
  const auto* real = std::get_if<double>(&v);
  if (whole == nullptr && real == nullptr)
    g.fail(std::string("%") + how.type + " of " + kind_of(v) + ", expected a number");
  if (is_one_of(how.type, "fFeEgG"))
    return real_text(g, real != nullptr ? *real : static_cast<double>(*whole), how);
  if (whole != nullptr) return whole_text(g, *whole, how);
  // %d takes a float and cuts it; %x and %o do not.
  if (how.type != 'd') g.fail(std::string("%") + how.type + " of a float, expected an integer");
  if (std::isnan(*real) || std::fabs(*real) >= 9.2e18) g.fail("%d of a number that does not fit");
  return whole_text(g, static_cast<std::int64_t>(*real), how);
}

/// One value of format.format(...), `how` given or not.
text brace_value(guard& g, const value& v, const layout& how, bool plain) {
  if (plain) return printed(g, v);
  if (const auto* t = std::get_if<text_ref>(&v)) {
    if ((how.type != 0 && how.type != 's') || how.sign != '-' || how.group != 0 || how.align == '=')
      g.fail("format: a number's format for a string");
    return padded(g, cut(**t, how.precision), how, '<');
  }
  std::int64_t room = 0;
  const auto* whole = as_whole(v, room);
  const auto* real = std::get_if<double>(&v);
  if (whole == nullptr && real == nullptr)
    g.fail(std::string("format: a format for ") + kind_of(v));
  if (real != nullptr || is_one_of(how.type, "fFeEgG%")) {
    if (how.type != 0 && !is_one_of(how.type, "fFeEgG%"))
      g.fail("format: an integer's type for a float");
    return real_text(g, real != nullptr ? *real : static_cast<double>(*whole), how);
  }
  if (how.precision >= 0) g.fail("format: a precision for an integer");
  if (how.type == 's') g.fail("format: a string's type for an integer");
  return whole_text(g, *whole, how);
}

/// [[fill]align][sign][0][width][,][.precision][type] in [at, end) of the format.
layout brace_layout(guard& g, const text& format, std::size_t at, std::size_t end) {
  layout out;
  const auto all = std::string_view(format.str()).substr(0, end);
  out.fill = text(" ", at == 0 || format.trusted_at(at - 1));
  const auto first = at < end ? next_utf8(all.substr(at)).length : std::size_t{0};
  if (first > 0 && at + first < end && is_one_of(all[at + first], "<>^=")) {
    out.fill = format.part(at, at + first);
    out.align = all[at + first];
    at += first + 1;
  } else if (first > 0 && is_one_of(all[at], "<>^=")) {
    out.align = all[at++];
  }
  if (at < end && is_one_of(all[at], "+- ")) out.sign = all[at++];
  if (at < end && all[at] == '0') {
    if (out.align == 0) {
      out.fill = format.part(at, at + 1);
      out.align = '0';  // zeros: between sign and digits, but behind a string
    }
    ++at;
  }
  out.width = std::max<std::int64_t>(read_number(g, all, at, width_max), 0);
  if (at < end && is_one_of(all[at], ",_")) out.group = all[at++];
  if (at < end && all[at] == '.') {
    out.precision = read_number(g, all, ++at, precision_max);
    if (out.precision < 0) g.fail("format: a precision without digits");
  }
  if (at < end && is_one_of(all[at], "sdfFeEgGxXob%")) out.type = all[at++];
  if (at < end) g.fail("format: \"" + std::string(all.substr(at, 20)) + "\" is not supported");
  return out;
}

}  // namespace

text percent_formatted(guard& g, const text& format, const value& values) {
  if (format.markup) g.fail("% of a text marked safe is not supported");
  // Python: only a tuple gives several values; a list is one.
  const auto* several = std::get_if<list_ref>(&values);
  const bool tuple = several != nullptr && (*several)->kind == list_kind::tuple;
  const auto* named = std::get_if<dict_ref>(&values);
  std::size_t used = 0;
  const auto next = [&]() -> value {
    if (tuple && used < (*several)->items.size()) return (*several)->items[used++];
    if (!tuple && used == 0) return ++used, values;
    g.fail("format: not enough values for the format");
  };
  const std::string_view all = format.str();
  text out;
  std::size_t at = 0;
  for (auto found = all.find('%'); found != all.npos; found = all.find('%', at)) {
    g.step();
    out.append_part(format, at, found);
    layout how;
    how.fill = text(" ", format.trusted_at(found));
    at = found + 1;
    value key = undefined{};
    if (all.substr(at).starts_with('(')) {
      const auto close = all.find(')', at);
      if (close == all.npos || named == nullptr) g.fail("format: %(name) needs a dict");
      key = make_text(g, format.part(at + 1, close));
      at = close + 1;
    }
    bool zeros = false;
    for (; at < all.size() && is_one_of(all[at], "-+ 0"); ++at) {
      if (all[at] == '-') how.align = '<';
      if (all[at] == '0') zeros = true;
      if (all[at] == '+' || (all[at] == ' ' && how.sign != '+')) how.sign = all[at];
    }
    how.width = std::max<std::int64_t>(read_number(g, all, at, width_max), 0);
    if (all.substr(at).starts_with('.')) {
      how.precision = std::max<std::int64_t>(read_number(g, all, ++at, precision_max), 0);
    }
    if (at >= all.size()) g.fail("format: the text ends inside of a \"%\"");
    how.type = all[at++];
    if (how.type == '%') {
      out.append_part(format, at - 1, at);
      continue;
    }
    if (how.type == 'i' || how.type == 'u') how.type = 'd';
    if (!is_one_of(how.type, "srdfFeEgGxXo"))
      g.fail("format: \"%" + std::string(all.substr(at - 1, 1)) + "\" is not supported");
    if (zeros && how.align == 0 && how.type != 's' && how.type != 'r') {
      how.align = '=';
      how.fill = text("0", format.trusted_at(found));
    }
    value v = is_undefined(key) ? next() : value(undefined{});
    if (!is_undefined(key)) {
      const auto* entry = (*named)->find(g, key);
      if (entry == nullptr)
        g.fail("format: no value for \"" + text_of(g, key, "name").str() + "\"");
      v = *entry;
    }
    out.append(percent_value(g, v, how));
    if (out.size() > guard::output_bytes_max) g.fail("format: the result is too long");
  }
  out.append_part(format, at, all.size());
  // A dict may have more than the format asks for.
  const bool left = tuple ? used < (*several)->items.size() : named == nullptr && used == 0;
  if (left) g.fail("format: more values than the format takes");
  return out;
}

text brace_formatted(guard& g, const text& format, const arguments& given) {
  const std::string_view all = format.str();
  text out;
  std::size_t automatic = 0;
  bool numbered = false;
  for (std::size_t at = 0; at < all.size();) {
    g.step();
    const auto found = std::min(all.find_first_of("{}", at), all.size());
    out.append_part(format, at, found);
    at = found + 1;
    if (found == all.size()) break;
    if (all.substr(at).starts_with(all[found])) {  // {{ or }}
      out.append_part(format, found, at++);
      continue;
    }
    const auto close = all.find('}', at);
    if (all[found] == '}' || close == all.npos) g.fail("format: a single \"{\" or \"}\"");
    const auto mark = std::min(all.find_first_of("!:", at), close);
    const auto name = all.substr(at, mark - at);
    // Attributes and nested fields of a format are how a sandbox is left in Python; no template
    // needs them.
    if (name.find_first_of("{.[") != name.npos) g.fail("format: fields are names or numbers");
    char conversion = 0;
    auto colon = mark;
    if (all[mark] == '!') {
      conversion = mark + 1 < close ? all[mark + 1] : '}';
      colon = mark + 2;
      if ((conversion != 's' && conversion != 'r') || (colon != close && all[colon] != ':'))
        g.fail("format: conversions are !s and !r");
    }
    const value* v = nullptr;
    if (name.find_first_not_of("0123456789") == name.npos) {
      std::size_t digits = 0;
      const auto index = name.empty() ? static_cast<std::int64_t>(automatic++)
                                      : read_number(g, name, digits, width_max);
      numbered = numbered || !name.empty();
      // As Python: either all fields are numbered or none is.
      if (numbered && automatic > 0) g.fail("format: numbered and unnumbered fields at once");
      if (static_cast<std::size_t>(index) < given.positional.size())
        v = &given.positional[static_cast<std::size_t>(index)];
    } else {
      for (const auto& [key, entry] : given.named) v = key == name ? &entry : v;
    }
    if (v == nullptr) g.fail("format: no value for \"{" + std::string(name.substr(0, 40)) + "}\"");
    const value shown = conversion == 0     ? *v
                        : conversion == 'r' ? make_text(g, represented(g, *v))
                                            : make_text(g, printed(g, *v));
    auto how = brace_layout(g, format, std::min(colon + 1, close), close);
    if (how.align == '0') how.align = std::holds_alternative<text_ref>(shown) ? '<' : '=';
    out.append(brace_value(g, shown, how, colon + 1 >= close));
    if (out.size() > guard::output_bytes_max) g.fail("format: the result is too long");
    at = close + 1;
  }
  return out;
}

}  // namespace troupe::gpu::jinja
