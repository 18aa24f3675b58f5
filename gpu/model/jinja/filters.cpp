// Filters of one value, and how a filter is found. A filter that works on text takes anything that
// prints, as Jinja's do.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "gpu/model/jinja/functions.hpp"

namespace troupe::gpu::jinja {
namespace {

using bound = std::vector<const value*>;

/// Digits for from_chars: without the blanks around, a plus sign, underscores between digits.
std::string plain_digits(const text& in) {
  const auto kept = stripped(in, nullptr, true, true);
  const auto& all = kept.str();
  std::string out;
  const auto digit = [&](std::size_t i) {
    return i < all.size() && all[i] >= '0' && all[i] <= '9';
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == 0 && all[i] == '+' && all.size() > 1 && all[1] != '-') continue;
    if (i > 0 && all[i] == '_' && digit(i - 1) && digit(i + 1)) continue;
    out += all[i];
  }
  return out;
}

bool read_real(const std::string& digits, double& out) {
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  // from_chars takes "nan(...)", Python does not.
  if (read.ptr != digits.data() + digits.size() || digits.ends_with(')')) return false;
  if (read.ec == std::errc::result_out_of_range) out = std::strtod(digits.c_str(), nullptr);
  return read.ec == std::errc{} || read.ec == std::errc::result_out_of_range;
}

/// Towards zero, as Python's int(); what has no integer is the default.
value truncated(guard& g, double real, const value& otherwise) {
  if (std::isnan(real) || std::isinf(real)) return otherwise;
  // A little inside 2^63, where the cast is still defined.
  if (real <= -9.2e18 || real >= 9.2e18) g.fail("int: a number that does not fit 64 bits");
  return static_cast<std::int64_t>(real);
}

/// Jinja's `int`: what is no number is the default, 0 unless given.
value to_integer(guard& g, const value& in, const bound& a) {
  value otherwise = a[0] == nullptr ? value(std::int64_t{0}) : *a[0];
  check_defined(g, in);
  if (a[1] != nullptr && integer(g, *a[1], "base") != 10) g.fail("int: only base 10 is supported");
  if (const auto* d = std::get_if<double>(&in)) return truncated(g, *d, otherwise);
  if (std::holds_alternative<std::int64_t>(in) || std::holds_alternative<bool>(in))
    return integer(g, in, "int");
  const auto* t = std::get_if<text_ref>(&in);
  if (t == nullptr) return otherwise;
  // int("3.9"): Jinja tries the text as an integer, then as a float.
  const auto digits = plain_digits(**t);
  const char* end = digits.data() + digits.size();
  std::int64_t whole = 0;
  const auto read = std::from_chars(digits.data(), end, whole);
  if (read.ec == std::errc{} && read.ptr == end) return whole;
  double real = 0;
  return read_real(digits, real) ? truncated(g, real, otherwise) : otherwise;
}

/// Jinja's `float`, in the same way.
value to_float(guard& g, const value& in, const bound& a) {
  value otherwise = a[0] == nullptr ? value(0.0) : *a[0];
  check_defined(g, in);
  if (std::holds_alternative<double>(in)) return in;
  if (std::holds_alternative<std::int64_t>(in) || std::holds_alternative<bool>(in))
    return static_cast<double>(integer(g, in, "float"));
  const auto* t = std::get_if<text_ref>(&in);
  double real = 0;
  return t != nullptr && read_real(plain_digits(**t), real) ? value(real) : otherwise;
}

/// Jinja's `round`; "common" rounds as Python does, the others towards one side.
value rounded(guard& g, const value& in, const bound& a) {
  const auto digits = a[0] == nullptr ? 0 : integer(g, *a[0], "precision");
  const auto method = a[1] == nullptr ? std::string("common") : text_of(g, *a[1], "method").str();
  if (digits < 0 || digits > 15)
    g.fail("round: precision is " + std::to_string(digits) + ", expected 0 to 15");
  const bool whole = std::holds_alternative<std::int64_t>(in) || std::holds_alternative<bool>(in);
  if (!whole && !std::holds_alternative<double>(in))
    g.fail(std::string("round: ") + kind_of(in) + ", expected a number");
  if (method == "common") {
    if (whole) return integer(g, in, "round");
    // The decimal text of the number is rounded, half to even, as Python does it.
    char buffer[400];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, std::get<double>(in),
                                   std::chars_format::fixed, static_cast<int>(digits));
    double out = 0;
    std::from_chars(buffer, end.ptr, out);
    return out;
  }
  if (method != "ceil" && method != "floor")
    g.fail("round: method is \"" + method + "\", expected common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled =
      (whole ? static_cast<double>(integer(g, in, "round")) : std::get<double>(in)) * scale;
  // Adding 0 makes -0 0, as Python's integers have no such thing.
  return ((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) + 0.0) / scale;
}

/// Jinja's `indent`: neither the first line nor empty ones, unless asked.
value indented(guard& g, const text& in, const bound& a) {
  text margin;
  if (a[0] != nullptr && std::holds_alternative<text_ref>(*a[0])) {
    margin = text_of(g, *a[0], "width");
  } else {
    const auto width = a[0] == nullptr ? 4 : integer(g, *a[0], "width");
    if (width > 1000) g.fail("indent: width is " + std::to_string(width) + ", at most 1000");
    margin =
        text(std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' '), true);
  }
  const bool first = a[1] != nullptr && truthy(*a[1]), blank = a[2] != nullptr && truthy(*a[2]);
  text out;
  if (first) out.append(margin);
  bool leading = true;
  text ended = in;
  ended.append("\n", true);  // so that an empty last line is a line
  for_each_line(ended.str(), [&](std::size_t begin, std::size_t end, std::size_t) {
    if (!std::exchange(leading, false)) {
      out.append("\n", true);
      if (end > begin || blank) out.append(margin);
    }
    out.append_part(ended, begin, end);
    if (out.size() > guard::output_bytes_max) g.fail("indent: the result is too long");
  });
  out.markup = in.markup;
  return make_text(g, std::move(out));
}

/// As transformers replaces it: json.dumps with these four. Jinja's own would escape for HTML.
value to_json(guard& g, const value& v, const bound& a) {
  json_style style;
  style.ascii = a[0] != nullptr && truthy(*a[0]);
  if (a[1] != nullptr && !std::holds_alternative<none>(*a[1])) {
    const auto indent = integer(g, *a[1], "indent");
    if (indent < 0 || indent > 32)
      g.fail("tojson: indent is " + std::to_string(indent) + ", expected 0 to 32");
    style.indent = static_cast<int>(indent);
    // json.dumps drops the blank behind the comma when there is an indent.
    style.comma = ",";
  }
  if (a[2] != nullptr && !std::holds_alternative<none>(*a[2])) {
    const auto pair = elements(g, *a[2]);
    if (pair->items.size() != 2) g.fail("tojson: separators are two texts");
    style.comma = text_of(g, pair->items[0], "separators").str();
    style.colon = text_of(g, pair->items[1], "separators").str();
  }
  style.sorted = a[3] != nullptr && truthy(*a[3]);
  return make_text(g, json(g, v, style));
}

value word_count(const text& in) {
  std::int64_t words = 0;
  bool inside = false;
  for_each_character(in.str(), [&](std::size_t, std::size_t, char32_t c) {
    // \w+ of Python's re.
    const bool word = c == '_' || is_letter(c) || is_number(c);
    words += word && !inside ? 1 : 0;
    inside = word;
  });
  return words;
}

value marked_safe(guard& g, text in) {
  in.markup = true;
  return make_text(g, std::move(in));
}

/// Jinja's filters that give markup back for markup.
bool keeps_markup(std::string_view name) {
  for (const std::string_view known : {"trim", "upper", "lower", "capitalize", "string"}) {
    if (name == known) return true;
  }
  return false;
}

}  // namespace

const filter value_filters[] = {
    {"trim", "chars",
     [](guard& g, const value& v, const bound& a) {
       const bool given = a[0] != nullptr && !std::holds_alternative<none>(*a[0]);
       return make_text(
           g, stripped(printed(g, v), given ? &text_of(g, *a[0], "chars") : nullptr, true, true));
     }},
    {"upper", "",
     [](guard& g, const value& v, const bound&) { return make_text(g, upper(printed(g, v))); }},
    {"lower", "",
     [](guard& g, const value& v, const bound&) { return make_text(g, lower(printed(g, v))); }},
    {"capitalize", "",
     [](guard& g, const value& v, const bound&) {
       return make_text(g, capitalized(printed(g, v)));
     }},
    {"title", "",
     [](guard& g, const value& v, const bound&) {
       return make_text(g, titled(printed(g, v), false));
     }},
    {"string", "",
     [](guard& g, const value& v, const bound&) { return make_text(g, printed(g, v)); }},
    {"safe", "",
     [](guard& g, const value& v, const bound&) { return marked_safe(g, printed(g, v)); }},
    {"escape", "",
     [](guard& g, const value& v, const bound&) {
       return make_text(g, escaped(g, printed(g, v)));
     }},
    {"e", "",
     [](guard& g, const value& v, const bound&) {
       return make_text(g, escaped(g, printed(g, v)));
     }},
    // Also what is marked safe.
    {"forceescape", "",
     [](guard& g, const value& v, const bound&) {
       auto plain = printed(g, v);
       plain.markup = false;
       return make_text(g, escaped(g, plain));
     }},
    {"length", "", [](guard& g, const value& v, const bound&) { return value(length(g, v)); }},
    {"count", "", [](guard& g, const value& v, const bound&) { return value(length(g, v)); }},
    {"wordcount", "",
     [](guard& g, const value& v, const bound&) { return word_count(printed(g, v)); }},
    {"indent", "width first blank",
     [](guard& g, const value& v, const bound& a) {
       return indented(g, text_of(g, v, "what is indented"), a);
     }},
    {"center", "width",
     [](guard& g, const value& v, const bound& a) {
       arguments given;
       given.positional.push_back(a[0] == nullptr ? value(std::int64_t{80}) : *a[0]);
       return call_method(g, make_text(g, printed(g, v)), "center", given);
     }},
    {"abs", "",
     [](guard& g, const value& v, const bound&) {
       // As a difference or a sum with 0: what is no number fails, a bool becomes an integer.
       return arithmetic(g, order(g, v, std::int64_t{0}) < 0 ? "-" : "+", std::int64_t{0}, v);
     }},
    {"round", "precision method", rounded},
    {"int", "default base", to_integer},
    {"float", "default", to_float},
    {"tojson", "ensure_ascii indent separators sort_keys", to_json},
    {"replace", "old new count",
     [](guard& g, const value& v, const bound& a) {
       if (a[0] == nullptr || a[1] == nullptr) g.fail("replace: old and new are needed");
       return make_text(g, replaced(g, printed(g, v), printed(g, *a[0]), printed(g, *a[1]),
                                    a[2] == nullptr || std::holds_alternative<none>(*a[2])
                                        ? -1
                                        : integer(g, *a[2], "count")));
     }},
    {"default", "default_value boolean",
     [](guard& g, const value& v, const bound& a) {
       // The second argument makes every value without truth a missing one.
       const bool replace = is_undefined(v) || (a[1] != nullptr && truthy(*a[1]) && !truthy(v));
       return !replace ? v : a[0] != nullptr ? *a[0] : make_text(g, {});
     }},
    {nullptr, nullptr, nullptr},
};

value apply_filter(guard& g, const std::string& name, const value& input, const arguments& given) {
  g.step();
  const auto* in = std::get_if<text_ref>(&input);
  if (in != nullptr) g.charge((*in)->size());
  if (is_choosing_filter(name)) return apply_choosing_filter(g, name, input, given);
  // Not in the table: it takes any number of arguments under any name.
  if (name == "format") {
    if (!given.positional.empty() && !given.named.empty())
      g.fail("format: positional and named values at once");
    std::vector<std::pair<value, value>> entries;
    for (const auto& [key, v] : given.named) entries.emplace_back(trusted_text(g, key), v);
    const auto values = entries.empty() ? make_list(g, given.positional, list_kind::tuple)
                                        : make_dict(g, std::move(entries));
    return make_text(g, percent_formatted(g, printed(g, input), values));
  }
  // d is Jinja's short name for default.
  const std::string_view looked_up = name == "d" ? "default" : std::string_view(name);
  for (const auto* table : {value_filters, sequence_filters}) {
    for (const auto* f = table; f->name != nullptr; ++f) {
      if (looked_up != f->name) continue;
      auto out = f->run(g, input, bound_arguments(g, name, f->parameters, given));
      if (in == nullptr || !(*in)->markup || !keeps_markup(looked_up)) return out;
      return marked_safe(g, printed(g, out));
    }
  }
  g.fail("unknown filter \"" + name.substr(0, 40) + "\"");
}

}  // namespace troupe::gpu::jinja
