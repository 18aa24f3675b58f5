// Filters and tests by name. A filter that works on text takes anything that prints, as Jinja's do.
#include <algorithm>
#include <charconv>

#include "gpu/model/jinja_functions.hpp"

namespace troupe::gpu::jinja {
namespace {

using bound = std::vector<const value*>;

/// a.b.0 of a value; the attribute= of map, join and sort.
value path_of(guard& g, value from, const value& path) {
  if (std::holds_alternative<std::int64_t>(path)) return item(g, from, path);
  std::string_view left = text_of(g, path, "attribute").str();
  while (!left.empty()) {
    const auto dot = std::min(left.find('.'), left.size());
    from = attribute(g, from, left.substr(0, dot));
    left.remove_prefix(std::min(dot + 1, left.size()));
  }
  return from;
}

std::vector<value> copied(guard& g, const value& v) {
  const auto all = elements(g, v);
  g.charge(all->items.size() * sizeof(value));
  return all->items;
}

value to_integer(guard& g, const value& in, const value& otherwise) {
  if (const auto* d = std::get_if<double>(&in))
    return *d > -9e18 && *d < 9e18 ? value(static_cast<std::int64_t>(*d)) : otherwise;
  if (std::holds_alternative<std::int64_t>(in) || std::holds_alternative<bool>(in))
    return integer(g, in, "int");
  const auto* t = std::get_if<text_ref>(&in);
  if (t == nullptr) return otherwise;
  const auto digits = stripped(**t, nullptr, true, true);
  const char* begin = digits.str().data();
  const char* end = begin + digits.size();
  if (begin != end && *begin == '+') ++begin;
  std::int64_t whole = 0;
  if (const auto read = std::from_chars(begin, end, whole);
      read.ec == std::errc{} && read.ptr == end)
    return whole;
  double real = 0;
  const auto read = std::from_chars(begin, end, real);
  if (read.ec == std::errc{} && read.ptr == end && real > -9e18 && real < 9e18)
    return static_cast<std::int64_t>(real);
  return otherwise;
}

value to_float(guard& g, const value& in, const value& otherwise) {
  if (std::holds_alternative<double>(in)) return in;
  if (std::holds_alternative<std::int64_t>(in) || std::holds_alternative<bool>(in)) {
    return static_cast<double>(integer(g, in, "float"));
  }
  const auto* t = std::get_if<text_ref>(&in);
  if (t == nullptr) return otherwise;
  const auto digits = stripped(**t, nullptr, true, true);
  double real = 0;
  const auto* end = digits.str().data() + digits.size();
  const auto read = std::from_chars(digits.str().data(), end, real);
  return read.ec == std::errc{} && read.ptr == end ? value(real) : otherwise;
}

value first_or_last(guard& g, const value& in, bool first) {
  const auto all = elements(g, in);
  if (all->items.empty())
    return undefined{std::make_shared<const std::string>("the first or last of nothing")};
  return first ? all->items.front() : all->items.back();
}

value reversed(guard& g, const value& in) {
  auto items = copied(g, in);
  std::reverse(items.begin(), items.end());
  if (std::holds_alternative<text_ref>(in)) return make_text(g, joined(g, items, {}));
  return make_list(g, std::move(items));
}

value sorted(guard& g, const value& in, const bound& a) {
  auto items = copied(g, in);
  const bool exact = a[1] != nullptr && truthy(*a[1]);
  const auto key = [&](const value& v) {
    const auto of = a[2] == nullptr ? v : path_of(g, v, *a[2]);
    const auto* t = std::get_if<text_ref>(&of);
    return t != nullptr && !exact ? make_text(g, lower(**t)) : of;
  };
  std::vector<std::pair<value, value>> keyed;
  for (auto& v : items) keyed.emplace_back(key(v), v);
  const bool backwards = a[0] != nullptr && truthy(*a[0]);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& x, const auto& y) {
    g.step();
    return backwards ? order(g, y.first, x.first) < 0 : order(g, x.first, y.first) < 0;
  });
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = keyed[i].second;
  return make_list(g, std::move(items));
}

value indented(guard& g, const text& in, const bound& a) {
  const auto width = a[0] == nullptr ? 4 : integer(g, *a[0], "width");
  if (width < 0 || width > 1000)
    g.fail("indent: width is " + std::to_string(width) + ", expected 0 to 1000");
  const text margin(std::string(static_cast<std::size_t>(width), ' '), true);
  const bool first = a[1] != nullptr && truthy(*a[1]), blank = a[2] != nullptr && truthy(*a[2]);
  text out;
  const std::string_view all = in.str();
  for (std::size_t at = 0; at <= all.size();) {
    const auto end = std::min(all.find('\n', at), all.size());
    if ((at > 0 || first) && (end > at || blank)) out.append(margin);
    out.append_part(in, at, std::min(end + 1, all.size()));
    if (out.size() > guard::output_bytes_max) g.fail("indent: the result is too long");
    at = end + 1;
  }
  return make_text(g, std::move(out));
}

value key_value_pairs(guard& g, const value& in) {
  if (is_undefined(in)) return make_list(g, {});
  if (!std::holds_alternative<dict_ref>(in))
    g.fail(std::string("items: ") + kind_of(in) + ", expected a dict");
  return call_method(g, in, "items", {});
}

text_ref separator_of(guard& g, const value* given) {
  return given == nullptr ? std::make_shared<const text>()
                          : std::make_shared<const text>(printed(g, *given));
}

value join_filter(guard& g, const value& in, const bound& a) {
  auto parts = copied(g, in);
  if (a[1] != nullptr) {
    for (auto& part : parts) part = path_of(g, part, *a[1]);
  }
  return make_text(g, joined(g, parts, *separator_of(g, a[0])));
}

struct filter {
  const char* name;
  const char* parameters;
  value (*run)(guard&, const value& in, const bound&);
};

constexpr filter filters[] = {
    {"trim", "chars",
     [](guard& g, const value& v, const bound& a) {
       return make_text(
           g, stripped(printed(g, v), a[0] == nullptr ? nullptr : &text_of(g, *a[0], "chars"), true,
                       true));
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
    {"safe", "", [](guard&, const value& v, const bound&) { return v; }},
    {"length", "", [](guard& g, const value& v, const bound&) { return value(length(g, v)); }},
    {"count", "", [](guard& g, const value& v, const bound&) { return value(length(g, v)); }},
    {"first", "", [](guard& g, const value& v, const bound&) { return first_or_last(g, v, true); }},
    {"last", "", [](guard& g, const value& v, const bound&) { return first_or_last(g, v, false); }},
    {"list", "", [](guard& g, const value& v, const bound&) { return make_list(g, copied(g, v)); }},
    {"reverse", "", [](guard& g, const value& v, const bound&) { return reversed(g, v); }},
    {"items", "", [](guard& g, const value& v, const bound&) { return key_value_pairs(g, v); }},
    {"join", "d attribute", join_filter},
    {"sort", "reverse case_sensitive attribute", sorted},
    {"indent", "width first blank",
     [](guard& g, const value& v, const bound& a) { return indented(g, printed(g, v), a); }},
    {"abs", "",
     [](guard& g, const value& v, const bound&) {
       return order(g, v, std::int64_t{0}) < 0 ? arithmetic(g, "-", std::int64_t{0}, v) : v;
     }},
    {"int", "default",
     [](guard& g, const value& v, const bound& a) {
       return to_integer(g, v, a[0] == nullptr ? value(std::int64_t{0}) : *a[0]);
     }},
    {"float", "default",
     [](guard& g, const value& v, const bound& a) {
       return to_float(g, v, a[0] == nullptr ? value(0.0) : *a[0]);
     }},
    {"tojson", "indent",
     [](guard& g, const value& v, const bound& a) {
       const bool given = a[0] != nullptr && !std::holds_alternative<none>(*a[0]);
       const auto indent = given ? integer(g, *a[0], "indent") : -1;
       if (indent > 32) g.fail("tojson: indent is " + std::to_string(indent) + ", at most 32");
       return make_text(g, json(g, v, static_cast<int>(indent < 0 ? -1 : indent)));
     }},
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
       const bool replace = is_undefined(v) || (a[1] != nullptr && truthy(*a[1]) && !truthy(v));
       return !replace ? v : a[0] != nullptr ? *a[0] : make_text(g, {});
     }},
};

/// select, reject, selectattr, rejectattr: a test by name, or truth.
value chosen(guard& g, const value& in, const arguments& given, bool by_attribute, bool wanted) {
  const std::size_t skip = by_attribute ? 1 : 0;
  if (given.positional.size() < skip) g.fail("selectattr and rejectattr need an attribute");
  arguments rest;
  const bool tested = given.positional.size() > skip;
  if (tested)
    rest.positional.assign(given.positional.begin() + static_cast<std::ptrdiff_t>(skip) + 1,
                           given.positional.end());
  std::vector<value> out;
  const auto all = elements(g, in);
  for (const auto& v : all->items) {
    g.step();
    const auto subject = by_attribute ? path_of(g, v, given.positional[0]) : v;
    const bool holds =
        tested ? apply_test(g, text_of(g, given.positional[skip], "the test's name").str(), subject,
                            rest)
               : truthy(subject);
    if (holds == wanted) out.push_back(v);
  }
  return make_list(g, std::move(out));
}

value mapped(guard& g, const value& in, const arguments& given) {
  auto items = copied(g, in);
  if (given.positional.empty()) {
    const auto a = bound_arguments(g, "map", "attribute default", given);
    if (a[0] == nullptr) g.fail("map: a filter's name or attribute= is needed");
    for (auto& v : items) {
      g.step();
      v = path_of(g, v, *a[0]);
      if (is_undefined(v) && a[1] != nullptr) v = *a[1];
    }
    return make_list(g, std::move(items));
  }
  arguments rest{{given.positional.begin() + 1, given.positional.end()}, given.named};
  const auto& name = text_of(g, given.positional[0], "the filter's name").str();
  // A filter that takes another one's name would nest without bound in one step.
  if (name == "map" || name.starts_with("select") || name.starts_with("reject"))
    g.fail("map: cannot apply " + name);
  for (auto& v : items) v = apply_filter(g, name, v, rest);
  return make_list(g, std::move(items));
}

}  // namespace

value apply_filter(guard& g, const std::string& name, const value& input, const arguments& given) {
  g.step();
  if (const auto* t = std::get_if<text_ref>(&input)) g.charge((*t)->size());
  if (name == "map") return mapped(g, input, given);
  if (name == "select" || name == "reject") return chosen(g, input, given, false, name == "select");
  if (name == "selectattr" || name == "rejectattr")
    return chosen(g, input, given, true, name == "selectattr");
  const std::string_view looked_up = name == "d" ? "default" : std::string_view(name);
  for (const auto& f : filters) {
    if (looked_up == f.name) return f.run(g, input, bound_arguments(g, name, f.parameters, given));
  }
  g.fail("unknown filter \"" + name.substr(0, 40) + "\"");
}

}  // namespace troupe::gpu::jinja
