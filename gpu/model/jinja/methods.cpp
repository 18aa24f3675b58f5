// Methods of strings, lists, dicts and loops.
#include <algorithm>

#include "gpu/model/jinja/functions.hpp"

namespace troupe::gpu::jinja {
namespace {

using bound = std::vector<const value*>;

/// None stands for "not given", as in Python's signatures.
const text* optional_text(guard& g, const value* v, const char* what) {
  return v == nullptr || std::holds_alternative<none>(*v) ? nullptr : &text_of(g, *v, what);
}

const text& required_text(guard& g, const value* v, const char* what) {
  if (v == nullptr) g.fail(std::string(what) + " is missing");
  return text_of(g, *v, what);
}

/// str.startswith, str.endswith
bool affix(guard& g, const text& self, const value* given, bool front) {
  if (given != nullptr) {
    // Python takes a tuple of texts: any of them will do.
    if (const auto* choices = std::get_if<list_ref>(given)) {
      for (const auto& choice : (*choices)->items) {
        if (affix(g, self, &choice, front)) return true;
      }
      return false;
    }
  }
  const auto& wanted = required_text(g, given, "the text to look for").str();
  return front ? self.str().starts_with(wanted) : self.str().ends_with(wanted);
}

/// How many characters there are before byte `at`.
std::int64_t characters_before(const text& self, std::size_t at) {
  std::int64_t out = 0;
  for_each_character(std::string_view(self.str()).substr(0, at),
                     [&](auto, auto, char32_t) { ++out; });
  return out;
}

/// Indices are of characters; the search is by bytes, which finds the same places in UTF-8.
value found_at(guard& g, const text& self, const bound& a, bool last, bool must) {
  const auto& wanted = required_text(g, a[0], "sub").str();
  const auto at = last ? find_last_bytes(self.str(), wanted) : find_bytes(self.str(), wanted, 0);
  if (at != std::string::npos) return characters_before(self, at);
  if (must) g.fail("index: the text to look for is not there");
  return std::int64_t{-1};
}

/// str.count: places that do not overlap.
value counted(guard& g, const text& self, const bound& a) {
  const auto& wanted = required_text(g, a[0], "sub").str();
  // Between all characters and at both ends.
  if (wanted.empty()) return characters_before(self, self.size()) + 1;
  std::int64_t out = 0;
  for (auto at = find_bytes(self.str(), wanted, 0); at != std::string::npos;
       at = find_bytes(self.str(), wanted, at + wanted.size()))
    ++out;
  return out;
}

value split_lines(guard& g, const text& self, bool keep) {
  std::vector<value> out;
  for_each_line(self.str(), [&](std::size_t begin, std::size_t end, std::size_t next) {
    out.push_back(make_text(g, self.part(begin, keep ? next : end)));
  });
  return make_list(g, std::move(out));
}

/// str.partition, str.rpartition: what is before, the separator, what is behind.
value parted(guard& g, const text& self, const bound& a, bool last) {
  const auto& wanted = required_text(g, a[0], "sep").str();
  if (wanted.empty()) g.fail("partition: an empty separator");
  const auto at = last ? find_last_bytes(self.str(), wanted) : find_bytes(self.str(), wanted, 0);
  // Not found: the whole text stands on the side where the search began.
  const auto nothing = make_text(g, {}), all = make_text(g, self);
  if (at == std::string::npos)
    return make_list(g,
                     last ? std::vector<value>{nothing, nothing, all}
                          : std::vector<value>{all, nothing, nothing},
                     list_kind::tuple);
  return make_list(g,
                   {make_text(g, self.part(0, at)), make_text(g, self.part(at, at + wanted.size())),
                    make_text(g, self.part(at + wanted.size(), self.size()))},
                   list_kind::tuple);
}

/// ljust, rjust, center: `place` is <, > or ^.
value filled(guard& g, const text& self, const bound& a, char place) {
  if (a[0] == nullptr) g.fail("width is missing");
  const auto width = integer(g, *a[0], "width");
  // The width comes from the template.
  if (width > 100'000) g.fail("width is " + std::to_string(width) + ", at most 100000");
  const text fill = a[1] == nullptr ? text(" ", true) : required_text(g, a[1], "fillchar");
  if (characters_before(fill, fill.size()) != 1) g.fail("fillchar is one character");
  const auto missing = std::max<std::int64_t>(width - characters_before(self, self.size()), 0);
  // str.center puts the odd one on the left when the width is odd.
  const auto before = place == '<'   ? 0
                      : place == '>' ? missing
                                     : missing / 2 + (missing & width & 1);
  text out;
  for (std::int64_t i = 0; i < before; ++i) out.append(fill);
  out.append(self);
  for (std::int64_t i = before; i < missing; ++i) out.append(fill);
  return make_text(g, std::move(out));
}

/// str.zfill
value zero_filled(guard& g, const text& self, const bound& a) {
  if (a[0] == nullptr) g.fail("zfill: width is missing");
  // Zeros go behind the sign.
  const bool sign = self.str().starts_with('-') || self.str().starts_with('+');
  const auto digits = make_text(g, self.part(sign ? 1 : 0, self.size()));
  const auto width = value(integer(g, *a[0], "width") - (sign ? 1 : 0));
  const auto zero = trusted_text(g, "0");
  text out = self.part(0, sign ? 1 : 0);
  out.append(*std::get<text_ref>(filled(g, *std::get<text_ref>(digits), {&width, &zero}, '>')));
  return make_text(g, std::move(out));
}

/// str.removeprefix, str.removesuffix
value without_affix(guard& g, const text& self, const bound& a, bool front) {
  const auto& gone = required_text(g, a[0], "the text to remove").str();
  const bool there = front ? self.str().starts_with(gone) : self.str().ends_with(gone);
  if (!there) return make_text(g, self);
  return make_text(
      g, front ? self.part(gone.size(), self.size()) : self.part(0, self.size() - gone.size()));
}

/// Whether there are characters and `holds` for all.
template <class F>
bool all_of(const text& self, F holds) {
  bool out = self.size() != 0;
  for_each_character(self.str(), [&](auto, auto, char32_t c) { out = out && holds(c); });
  return out;
}

/// str.isdigit: decimal digits and the digits in circles, brackets, super- and subscript.
bool is_digit(char32_t c) {
  // Numeric_Type=Digit, which utf8proc does not have.
  constexpr char32_t more[][2] = {
      {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
      {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
      {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
      {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
      {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};
  if (is_decimal(c)) return true;
  return std::any_of(std::begin(more), std::end(more),
                     [c](const auto& range) { return c >= range[0] && c <= range[1]; });
}

struct text_method {
  const char* name;
  const char* parameters;
  value (*run)(guard&, const text& self, const bound&);
};

// Searched in order: a template calls a few, and looking costs less than the call.
constexpr text_method text_methods[] = {
    {"strip", "chars",
     [](guard& g, const text& s, const bound& a) {
       return make_text(g, stripped(s, optional_text(g, a[0], "chars"), true, true));
     }},
    {"lstrip", "chars",
     [](guard& g, const text& s, const bound& a) {
       return make_text(g, stripped(s, optional_text(g, a[0], "chars"), true, false));
     }},
    {"rstrip", "chars",
     [](guard& g, const text& s, const bound& a) {
       return make_text(g, stripped(s, optional_text(g, a[0], "chars"), false, true));
     }},
    {"upper", "", [](guard& g, const text& s, const bound&) { return make_text(g, upper(s)); }},
    {"lower", "", [](guard& g, const text& s, const bound&) { return make_text(g, lower(s)); }},
    {"title", "",
     [](guard& g, const text& s, const bound&) { return make_text(g, titled(s, true)); }},
    {"capitalize", "",
     [](guard& g, const text& s, const bound&) { return make_text(g, capitalized(s)); }},
    {"startswith", "prefix",
     [](guard& g, const text& s, const bound& a) { return value(affix(g, s, a[0], true)); }},
    {"endswith", "suffix",
     [](guard& g, const text& s, const bound& a) { return value(affix(g, s, a[0], false)); }},
    {"swapcase", "",
     [](guard& g, const text& s, const bound&) { return make_text(g, swapped_case(s)); }},
    {"isdigit", "", [](guard&, const text& s, const bound&) { return value(all_of(s, is_digit)); }},
    {"isdecimal", "",
     [](guard&, const text& s, const bound&) { return value(all_of(s, is_decimal)); }},
    {"isalpha", "",
     [](guard&, const text& s, const bound&) { return value(all_of(s, is_letter)); }},
    {"isalnum", "",
     [](guard&, const text& s, const bound&) {
       return value(all_of(s, [](char32_t c) { return is_letter(c) || is_number(c); }));
     }},
    {"isspace", "", [](guard&, const text& s, const bound&) { return value(all_of(s, is_space)); }},
    {"islower", "",
     [](guard&, const text& s, const bound&) { return value(is_in_case(s, false)); }},
    {"isupper", "", [](guard&, const text& s, const bound&) { return value(is_in_case(s, true)); }},
    {"splitlines", "keepends",
     [](guard& g, const text& s, const bound& a) {
       return split_lines(g, s, a[0] != nullptr && truthy(*a[0]));
     }},
    {"find", "sub",
     [](guard& g, const text& s, const bound& a) { return found_at(g, s, a, false, false); }},
    {"rfind", "sub",
     [](guard& g, const text& s, const bound& a) { return found_at(g, s, a, true, false); }},
    {"index", "sub",
     [](guard& g, const text& s, const bound& a) { return found_at(g, s, a, false, true); }},
    {"rindex", "sub",
     [](guard& g, const text& s, const bound& a) { return found_at(g, s, a, true, true); }},
    {"count", "sub", counted},
    {"partition", "sep",
     [](guard& g, const text& s, const bound& a) { return parted(g, s, a, false); }},
    {"rpartition", "sep",
     [](guard& g, const text& s, const bound& a) { return parted(g, s, a, true); }},
    {"removeprefix", "prefix",
     [](guard& g, const text& s, const bound& a) { return without_affix(g, s, a, true); }},
    {"removesuffix", "suffix",
     [](guard& g, const text& s, const bound& a) { return without_affix(g, s, a, false); }},
    {"ljust", "width fillchar",
     [](guard& g, const text& s, const bound& a) { return filled(g, s, a, '<'); }},
    {"rjust", "width fillchar",
     [](guard& g, const text& s, const bound& a) { return filled(g, s, a, '>'); }},
    {"center", "width fillchar",
     [](guard& g, const text& s, const bound& a) { return filled(g, s, a, '^'); }},
    {"zfill", "width", zero_filled},
    {"rsplit", "sep maxsplit",
     [](guard& g, const text& s, const bound& a) {
       return split_from_right(g, s, optional_text(g, a[0], "sep"),
                               a[1] == nullptr ? -1 : integer(g, *a[1], "maxsplit"));
     }},
    {"split", "sep maxsplit",
     [](guard& g, const text& s, const bound& a) {
       return split(g, s, optional_text(g, a[0], "sep"),
                    a[1] == nullptr ? -1 : integer(g, *a[1], "maxsplit"));
     }},
    {"replace", "old new count",
     [](guard& g, const text& s, const bound& a) {
       return make_text(g,
                        replaced(g, s, required_text(g, a[0], "old"), required_text(g, a[1], "new"),
                                 a[2] == nullptr ? -1 : integer(g, *a[2], "count")));
     }},
    {"join", "parts",
     [](guard& g, const text& s, const bound& a) {
       if (a[0] == nullptr) g.fail("join: parts is missing");
       return make_text(g, joined(g, elements(g, *a[0])->items, s));
     }},
};

/// A view, as dict.items(): it can be looped over and not indexed.
value pair_list(guard& g, const dict& self) {
  std::vector<value> out;
  for (const auto& [key, entry] : self.entries)
    out.push_back(make_list(g, {key, entry}, list_kind::tuple));
  return make_list(g, std::move(out), list_kind::view);
}

/// The methods that only read: a dict is shared by all that hold it.
value dict_method(guard& g, const dict_ref& self, const std::string& name, const arguments& given) {
  if (name == "get") {
    const auto a = bound_arguments(g, name, "key default", given);
    if (a[0] == nullptr) g.fail("get: key is missing");
    const auto* found = self->find(g, *a[0]);
    return found != nullptr ? *found : a[1] != nullptr ? *a[1] : value(none{});
  }
  // pop, update and the like change a dict; values are shared and never change (value.hpp).
  if (name != "items" && name != "keys" && name != "values" && name != "copy")
    g.fail("a dict has no method \"" + name + "\"");
  bound_arguments(g, name, "", given);
  if (name == "copy") return self;
  if (name == "items") return pair_list(g, *self);
  std::vector<value> out;
  for (const auto& [key, entry] : self->entries) out.push_back(name == "keys" ? key : entry);
  return make_list(g, std::move(out), list_kind::view);
}

/// The same for lists and tuples; Python's other sequences have none of these.
value list_method(guard& g, const list_ref& self, const std::string& name, const arguments& given) {
  if (name != "index" && name != "count" && name != "copy")
    g.fail("a list has no method \"" + name + "\" here (lists cannot be changed)");
  if (self->kind != list_kind::list && (name == "copy" || self->kind != list_kind::tuple))
    g.fail("this sequence has no method \"" + name + "\"; use | list");
  const auto a = bound_arguments(g, name, name == "copy" ? "" : "item", given);
  if (name == "copy") return self;
  if (a[0] == nullptr) g.fail(name + ": item is missing");
  std::int64_t count = 0;
  for (std::size_t i = 0; i < self->items.size(); ++i) {
    if (!equal(g, self->items[i], *a[0])) continue;
    if (name == "index") return static_cast<std::int64_t>(i);
    ++count;
  }
  if (name == "index") g.fail("index: the item is not in the list");
  return count;
}

/// What a method of a text marked safe answers is marked too, where Python's Markup does so without
/// escaping anything; the others are refused.
value marked(guard& g, const std::string& name, value made) {
  for (const std::string_view escaping : {"replace", "join", "format", "ljust", "rjust", "center",
                                          "zfill", "partition", "rpartition"}) {
    if (name == escaping) g.fail(name + " of a text marked safe is not supported");
  }
  const auto mark = [&](const value& v) {
    const auto* t = std::get_if<text_ref>(&v);
    if (t == nullptr) return v;
    text out = **t;
    out.markup = true;
    return make_text(g, std::move(out));
  };
  const auto* l = std::get_if<list_ref>(&made);
  if (l == nullptr) return mark(made);
  std::vector<value> parts;
  for (const auto& part : (*l)->items) parts.push_back(mark(part));
  return make_list(g, std::move(parts), (*l)->kind);
}

/// Each reads the whole text at most a few times, so its size is what it costs.
value text_method_result(guard& g, const text& self, const std::string& name,
                         const arguments& given) {
  g.charge(self.size());
  if (name == "format") return make_text(g, brace_formatted(g, self, given));
  for (const auto& method : text_methods) {
    if (name == method.name)
      return method.run(g, self, bound_arguments(g, name, method.parameters, given));
  }
  g.fail("a string has no method \"" + name + "\"");
}

}  // namespace

value call_method(guard& g, const value& object, const std::string& name, const arguments& given) {
  if (const auto* t = std::get_if<text_ref>(&object)) {
    auto out = text_method_result(g, **t, name, given);
    return (*t)->markup ? marked(g, name, std::move(out)) : out;
  }
  if (const auto* d = std::get_if<dict_ref>(&object)) return dict_method(g, *d, name, given);
  if (const auto* l = std::get_if<list_ref>(&object)) return list_method(g, *l, name, given);
  if (const auto* loop = std::get_if<loop_ref>(&object); loop != nullptr && name == "cycle") {
    if (given.positional.empty()) g.fail("loop.cycle without values");
    return given.positional[(*loop)->index0 % given.positional.size()];
  }
  g.fail(std::string(kind_of(object)) + " has no method \"" + name + "\"");
}

}  // namespace troupe::gpu::jinja
