// Reading values: attributes, items, slices, elements, lengths.
#include "gpu/model/jinja/value.hpp"

namespace troupe::gpu::jinja {
namespace {

/// Jinja answers undefined instead of raising: templates test for fields that not every message
/// has. `what` is for the message when it is used after all.
value nothing(std::string what) {
  return undefined{std::make_shared<const std::string>(std::move(what))};
}

/// Python's generators and dict views have neither indices nor slices.
bool is_indexed(const list& l) {
  return l.kind != list_kind::generator && l.kind != list_kind::view;
}

void check_indexed(guard& g, const list& l) {
  if (!is_indexed(l)) g.fail("a generator or dict view cannot be sliced; use | list");
}

value loop_attribute(guard& g, const loop_state& loop, std::string_view name) {
  const auto size = loop.items->items.size();
  const auto count = [](std::size_t n) { return value(static_cast<std::int64_t>(n)); };
  if (name == "index") return count(loop.index0 + 1);
  if (name == "index0") return count(loop.index0);
  if (name == "revindex") return count(size - loop.index0);
  if (name == "revindex0") return count(size - loop.index0 - 1);
  if (name == "first") return loop.index0 == 0;
  if (name == "last") return loop.index0 + 1 == size;
  if (name == "length") return count(size);
  if (name == "depth") return std::int64_t{loop.depth0} + 1;
  if (name == "depth0") return std::int64_t{loop.depth0};
  if (name == "previtem")
    return loop.index0 > 0 ? loop.items->items[loop.index0 - 1] : nothing("loop.previtem");
  if (name == "nextitem")
    return loop.index0 + 1 < size ? loop.items->items[loop.index0 + 1] : nothing("loop.nextitem");
  // loop.cycle is a method (methods.cpp); loop.changed is not there.
  g.fail("loop." + std::string(name) + " is not supported");
}

/// Python answers a bound method for `text.strip` without a call, which is never what a template
/// means.
void refuse_method(guard& g, const char* owner, std::string_view names, std::string_view name) {
  if (names.find(" " + std::string(name) + " ") != names.npos)
    g.fail(std::string(owner) + "'s method \"" + std::string(name) + "\" is not called");
}
// Python's own, not the ones supported here: a template must not read a missing key where its
// author meant a method.
constexpr std::string_view dict_methods =
    " clear copy fromkeys get items keys pop popitem setdefault update values ";
constexpr std::string_view list_methods =
    " append clear copy count extend index insert pop remove reverse sort ";
constexpr std::string_view text_methods =
    " capitalize casefold center count encode endswith expandtabs find format format_map index "
    "isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace "
    "istitle isupper join ljust lower lstrip maketrans partition removeprefix removesuffix replace "
    "rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title "
    "translate upper zfill ";

/// A part of a text marked safe is safe, too.
text marked_as(const text& origin, text made) {
  made.markup = origin.markup;
  return made;
}

/// Offsets of the characters of a string, and its size at the end.
std::vector<std::size_t> character_offsets(guard& g, std::string_view bytes) {
  // Indexing is by characters and text is UTF-8, so this walks the string; it is charged for, or a
  // loop over indices would be quadratic for free.
  g.charge(bytes.size());
  std::vector<std::size_t> out;
  for_each_character(bytes,
                     [&](std::size_t begin, std::size_t, char32_t) { out.push_back(begin); });
  out.push_back(bytes.size());
  return out;
}

/// Python's slice indices over `size` elements.
std::vector<std::size_t> slice_indices(guard& g, std::int64_t size, const value& start,
                                       const value& stop, const value& step) {
  const auto given = [](const value& v) {
    return !is_undefined(v) && !std::holds_alternative<none>(v);
  };
  const auto by = given(step) ? integer(g, step, "slice step") : 1;
  if (by == 0) g.fail("slice step cannot be zero");
  // CPython's PySlice_AdjustIndices: indices beyond an end are the end, and going backwards the
  // place before the first is -1.
  const auto clamped = [&](const value& v, std::int64_t otherwise) {
    if (!given(v)) return otherwise;
    auto at = integer(g, v, "slice index");
    if (at < 0)
      at = at < -size ? -1 : at + size;
    else if (at > size)
      at = size;
    if (at < 0) return by > 0 ? std::int64_t{0} : std::int64_t{-1};
    return by < 0 && at >= size ? size - 1 : at;
  };
  const auto from = clamped(start, by > 0 ? 0 : size - 1);
  const auto to = clamped(stop, by > 0 ? size : -1);
  std::vector<std::size_t> out;
  if (by > 0) {
    // Compared before it is added: a step near 2^63 would overflow.
    for (auto i = from; i<to; i = by> to - i ? to : i + by)
      out.push_back(static_cast<std::size_t>(i));
  } else {
    for (auto i = from; i > to; i = by < to - i ? to : i + by)
      out.push_back(static_cast<std::size_t>(i));
  }
  return out;
}

}  // namespace

value attribute(guard& g, const value& object, std::string_view name) {
  check_defined(g, object);
  if (const auto* d = std::get_if<dict_ref>(&object)) {
    // Methods go before keys, as in Jinja's getattr: a key of that name is reached as d["items"].
    refuse_method(g, "a dict", dict_methods, name);
    if (const auto* found = (*d)->find(name)) return *found;
  } else if (std::holds_alternative<text_ref>(object)) {
    refuse_method(g, "a string", text_methods, name);
  } else if (std::holds_alternative<list_ref>(object)) {
    refuse_method(g, "a list", list_methods, name);
  } else if (const auto* n = std::get_if<namespace_ref>(&object)) {
    const auto found = (*n)->entries.find(name);
    if (found != (*n)->entries.end()) return found->second;
  } else if (const auto* loop = std::get_if<loop_ref>(&object)) {
    return loop_attribute(g, **loop, name);
  }
  return nothing("'" + std::string(name) + "' of " + kind_of(object));
}

value item(guard& g, const value& object, const value& key) {
  check_defined(g, object);
  if (const auto* d = std::get_if<dict_ref>(&object)) {
    const auto* found = (*d)->find(g, key);
    return found != nullptr ? *found : nothing("an item of a dict");
  }
  // Jinja falls back from item to attribute, so object["name"] is object.name.
  if (const auto* name = std::get_if<text_ref>(&key)) return attribute(g, object, (*name)->str());
  if (!std::holds_alternative<list_ref>(object) && !std::holds_alternative<text_ref>(object)) {
    return nothing(std::string("an item of ") + kind_of(object));
  }
  // True is 1 in Python, also as an index.
  const bool index = std::holds_alternative<std::int64_t>(key) || std::holds_alternative<bool>(key);
  if (!index) return nothing(std::string("an item of ") + kind_of(object));
  auto at = integer(g, key, "index");
  if (const auto* l = std::get_if<list_ref>(&object)) {
    if (!is_indexed(**l)) return nothing("an item of a generator");
    const auto size = static_cast<std::int64_t>((*l)->items.size());
    if (at < 0) at += size;
    return at < 0 || at >= size ? nothing("item " + std::to_string(at) + " of a list")
                                : (*l)->items[static_cast<std::size_t>(at)];
  }
  const auto& string = *std::get<text_ref>(object);
  const auto offsets = character_offsets(g, string.str());
  const auto size = static_cast<std::int64_t>(offsets.size()) - 1;
  if (at < 0) at += size;
  if (at < 0 || at >= size) return nothing("item " + std::to_string(at) + " of a string");
  const auto i = static_cast<std::size_t>(at);
  return make_text(g, marked_as(string, string.part(offsets[i], offsets[i + 1])));
}

value slice(guard& g, const value& object, const value& start, const value& stop,
            const value& step) {
  check_defined(g, object);
  if (const auto* l = std::get_if<list_ref>(&object)) {
    check_indexed(g, **l);
    std::vector<value> out;
    for (const auto i :
         slice_indices(g, static_cast<std::int64_t>((*l)->items.size()), start, stop, step)) {
      out.push_back((*l)->items[i]);
    }
    return make_list(g, std::move(out), (*l)->kind);
  }
  const auto& string = text_of(g, object, "what is sliced");
  const auto offsets = character_offsets(g, string.str());
  text out;
  for (const auto i :
       slice_indices(g, static_cast<std::int64_t>(offsets.size()) - 1, start, stop, step)) {
    out.append_part(string, offsets[i], offsets[i + 1]);
  }
  return make_text(g, marked_as(string, std::move(out)));
}

list_ref elements(guard& g, const value& v) {
  std::vector<value> out;
  if (const auto* l = std::get_if<list_ref>(&v)) {
    // A generator gives each element once; what was taken before is gone, as in Python.
    if ((*l)->kind != list_kind::generator) return *l;
    const auto& items = (*l)->items;
    const auto taken = std::exchange((*l)->taken, items.size());
    // Nothing was taken yet: the list itself will do, without a copy.
    if (taken == 0) return *l;
    out.assign(items.begin() + static_cast<std::ptrdiff_t>(taken), items.end());
    return std::get<list_ref>(make_list(g, std::move(out)));
  }
  if (const auto* d = std::get_if<dict_ref>(&v)) {
    for (const auto& [key, entry] : (*d)->entries) out.emplace_back(key);
  } else if (const auto* t = std::get_if<text_ref>(&v)) {
    for_each_character((*t)->str(), [&](std::size_t begin, std::size_t end, char32_t) {
      out.push_back(make_text(g, (*t)->part(begin, end)));
    });
  } else if (!is_undefined(v)) {
    g.fail(std::string(kind_of(v)) + " cannot be iterated");
  }
  return std::get<list_ref>(make_list(g, std::move(out)));
}

std::int64_t length(guard& g, const value& v) {
  if (const auto* l = std::get_if<list_ref>(&v)) {
    if ((*l)->kind == list_kind::generator) g.fail("a generator has no length; use | list");
    return static_cast<std::int64_t>((*l)->items.size());
  }
  if (const auto* d = std::get_if<dict_ref>(&v))
    return static_cast<std::int64_t>((*d)->entries.size());
  // Jinja's Undefined has length 0 and iterates as nothing.
  if (is_undefined(v)) return 0;
  if (const auto* loop = std::get_if<loop_ref>(&v))
    return static_cast<std::int64_t>((*loop)->items->items.size());
  std::int64_t count = 0;
  for_each_character(text_of(g, v, "what length is asked of").str(),
                     [&](auto, auto, char32_t) { ++count; });
  return count;
}

std::int64_t integer(guard& g, const value& v, const char* what) {
  if (const auto* i = std::get_if<std::int64_t>(&v)) return *i;
  if (const auto* b = std::get_if<bool>(&v)) return *b ? 1 : 0;
  g.fail(std::string(what) + " is " + kind_of(v) + ", expected an integer");
}

const text& text_of(guard& g, const value& v, const char* what) {
  if (const auto* t = std::get_if<text_ref>(&v)) return **t;
  check_defined(g, v);
  g.fail(std::string(what) + " is " + kind_of(v) + ", expected a string");
}

}  // namespace troupe::gpu::jinja
