// Filters of sequences: sorting, grouping, choosing, mapping.
#include <algorithm>
#include <cmath>

#include "gpu/model/jinja/functions.hpp"

namespace troupe::gpu::jinja {
namespace {

using bound = std::vector<const value*>;

bool is_set(const value* v) {
  return v != nullptr && truthy(*v);
}

const value* unless_none(const value* v) {
  return v == nullptr || std::holds_alternative<none>(*v) ? nullptr : v;
}

/// a.b.0 of a value; the attribute= of map, join and sort.
value path_of(guard& g, value from, const value& path) {
  if (std::holds_alternative<std::int64_t>(path)) return item(g, from, path);
  std::string_view left = text_of(g, path, "attribute").str();
  if (left.find(',') != left.npos) g.fail("attribute: several attributes are not supported");
  while (!left.empty()) {
    const auto part = left.substr(0, left.find('.'));
    std::int64_t index = 0;
    // A part of digits is an index; 17 of them always fit.
    const bool number = part.find_first_not_of("0123456789") == part.npos && part.size() < 18;
    for (const char c : part) index = number ? index * 10 + (c - '0') : 0;
    from = item(g, from, number && !part.empty() ? value(index) : trusted_text(g, part));
    left.remove_prefix(std::min(part.size() + 1, left.size()));
  }
  return from;
}

/// A copy to change; values themselves are shared.
std::vector<value> copied(guard& g, const value& v) {
  const auto all = elements(g, v);
  g.charge(all->items.size() * sizeof(value));
  return all->items;
}

/// Jinja's filters of this kind are generators: templates that test one for truth, or read it
/// twice, see the difference.
value lazily(guard& g, std::vector<value> items) {
  return make_list(g, std::move(items), list_kind::generator);
}

/// Undefined of nothing, so that a template may test for it.
value first_or_last(guard& g, const value& in, bool first) {
  const auto* l = std::get_if<list_ref>(&in);
  // `first` takes one element and leaves the rest to be read.
  if (first && l != nullptr && (*l)->kind == list_kind::generator &&
      (*l)->taken < (*l)->items.size())
    return (*l)->items[(*l)->taken++];
  const auto all = elements(g, in);
  if (all->items.empty())
    return undefined{std::make_shared<const std::string>("the first or last of nothing")};
  return first ? all->items.front() : all->items.back();
}

/// A text stays a text; everything else is read once, backwards.
value reversed(guard& g, const value& in) {
  auto items = copied(g, in);
  std::reverse(items.begin(), items.end());
  if (std::holds_alternative<text_ref>(in)) return make_text(g, joined(g, items, {}));
  return lazily(g, std::move(items));
}

/// What a value is compared by: its attribute, in lower case unless case counts.
value key_of(guard& g, const value& v, const value* attribute_path, bool exact) {
  const auto of = attribute_path == nullptr ? v : path_of(g, v, *attribute_path);
  const auto* t = std::get_if<text_ref>(&of);
  return t != nullptr && !exact ? make_text(g, lower(**t)) : of;
}

using keyed = std::vector<std::pair<value, value>>;

void sort_by_key(guard& g, keyed& items, bool backwards) {
  // Stable as Python's, also backwards: equal items keep their order.
  std::stable_sort(items.begin(), items.end(), [&](const auto& x, const auto& y) {
    g.step();
    return backwards ? order(g, y.first, x.first) < 0 : order(g, x.first, y.first) < 0;
  });
}

keyed keyed_items(guard& g, const value& in, const value* attribute_path, bool exact) {
  keyed out;
  const auto all = elements(g, in);
  for (const auto& v : all->items) out.emplace_back(key_of(g, v, attribute_path, exact), v);
  return out;
}

value values_of(guard& g, const keyed& items) {
  std::vector<value> out;
  for (const auto& [key, v] : items) out.push_back(v);
  return make_list(g, std::move(out));
}

/// sort(reverse, case_sensitive, attribute)
value sorted(guard& g, const value& in, const bound& a) {
  auto items = keyed_items(g, in, unless_none(a[2]), is_set(a[1]));
  sort_by_key(g, items, is_set(a[0]));
  return values_of(g, items);
}

/// Pairs, by key unless `by` says value.
value dict_sorted(guard& g, const value& in, const bound& a) {
  const auto* d = std::get_if<dict_ref>(&in);
  if (d == nullptr) g.fail(std::string("dictsort: ") + kind_of(in) + ", expected a dict");
  const auto by = a[1] == nullptr ? std::string("key") : text_of(g, *a[1], "by").str();
  if (by != "key" && by != "value") g.fail("dictsort: by is \"" + by + "\", expected key or value");
  keyed items;
  for (const auto& [key, entry] : (*d)->entries) {
    items.emplace_back(key_of(g, by == "key" ? key : entry, nullptr, is_set(a[0])),
                       make_list(g, {key, entry}, list_kind::tuple));
  }
  sort_by_key(g, items, is_set(a[2]));
  return values_of(g, items);
}

/// The first of equal ones, in the order of the input.
value unique(guard& g, const value& in, const bound& a) {
  keyed kept;
  for (auto& one : keyed_items(g, in, unless_none(a[1]), is_set(a[0]))) {
    // Compared with each that was kept, since keys need not be hashable; equal() counts the steps.
    const bool seen = std::any_of(kept.begin(), kept.end(),
                                  [&](const auto& k) { return equal(g, k.first, one.first); });
    if (!seen) kept.push_back(std::move(one));
  }
  std::vector<value> out;
  for (const auto& [key, v] : kept) out.push_back(v);
  return lazily(g, std::move(out));
}

value extreme(guard& g, const value& in, const bound& a, bool greatest) {
  const auto items = keyed_items(g, in, unless_none(a[1]), is_set(a[0]));
  if (items.empty())
    return undefined{std::make_shared<const std::string>("the least or greatest of nothing")};
  const auto* best = &items.front();
  for (auto one = items.begin() + 1; one != items.end(); ++one) {
    const int relation = order(g, one->first, best->first);
    if (greatest ? relation > 0 : relation < 0) best = &*one;
  }
  return best->second;
}

/// From `start` on, with the operator + of what is added.
value sum(guard& g, const value& in, const bound& a) {
  value out = a[1] == nullptr ? value(std::int64_t{0}) : *a[1];
  // Python refuses it, too.
  if (std::holds_alternative<text_ref>(out)) g.fail("sum: strings are joined, not added");
  const auto all = elements(g, in);
  const auto* path = unless_none(a[0]);
  for (const auto& v : all->items) {
    g.step();
    out = arithmetic(g, "+", out, path == nullptr ? v : path_of(g, v, *path));
  }
  return out;
}

/// Sorted first, so that a group is never split; (name, items) for each.
value grouped(guard& g, const value& in, const bound& a) {
  if (a[0] == nullptr) g.fail("groupby: attribute is missing");
  const auto name_of = [&](const value& v) {
    auto of = path_of(g, v, *a[0]);
    return is_undefined(of) && unless_none(a[1]) != nullptr ? *a[1] : of;
  };
  const bool exact = is_set(a[2]);
  keyed items;
  const auto all = elements(g, in);
  for (const auto& v : all->items) items.emplace_back(key_of(g, name_of(v), nullptr, exact), v);
  sort_by_key(g, items, false);
  std::vector<value> out;
  for (std::size_t i = 0; i < items.size();) {
    std::vector<value> group;
    const auto start = i;
    for (; i < items.size() && equal(g, items[i].first, items[start].first); ++i)
      group.push_back(items[i].second);
    // The group is named by its first item as written, not by the lower-case key it was sorted by.
    out.push_back(make_list(g, {name_of(group.front()), make_list(g, group)}, list_kind::tuple));
  }
  return make_list(g, std::move(out));
}

/// Rows of `linecount`; the last is filled up where there is something to fill with.
value batched(guard& g, const value& in, const bound& a) {
  const auto size = a[0] == nullptr ? 0 : integer(g, *a[0], "linecount");
  if (size < 1) g.fail("batch: linecount is " + std::to_string(size) + ", expected 1 or more");
  const auto all = elements(g, in);
  std::vector<value> out, row;
  const auto flush = [&] { out.push_back(make_list(g, std::exchange(row, {}))); };
  for (const auto& v : all->items) {
    if (static_cast<std::int64_t>(row.size()) == size) flush();
    row.push_back(v);
  }
  // Nothing is filled up for an empty input.
  if (row.empty()) return lazily(g, std::move(out));
  const auto* fill = unless_none(a[1]);
  while (fill != nullptr && static_cast<std::int64_t>(row.size()) < size) {
    g.step();
    row.push_back(*fill);
  }
  flush();
  return lazily(g, std::move(out));
}

/// `items`, which takes undefined for an empty dict.
value key_value_pairs(guard& g, const value& in) {
  if (is_undefined(in)) return lazily(g, {});
  if (!std::holds_alternative<dict_ref>(in))
    g.fail(std::string("items: ") + kind_of(in) + ", expected a dict");
  return lazily(g, elements(g, call_method(g, in, "items", {}))->items);
}

value join_filter(guard& g, const value& in, const bound& a) {
  auto parts = copied(g, in);
  if (const auto* path = unless_none(a[1])) {
    for (auto& part : parts) part = path_of(g, part, *path);
  }
  return make_text(g, joined(g, parts, a[0] == nullptr ? text() : printed(g, *a[0])));
}

/// select, reject, selectattr, rejectattr: a test by name, or truth.
value chosen(guard& g, const value& in, const arguments& given, bool by_attribute, bool wanted) {
  const std::size_t skip = by_attribute ? 1 : 0;
  if (given.positional.size() < skip) g.fail("selectattr and rejectattr need an attribute");
  arguments rest;
  // Without a test the values are taken by their truth.
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
  return lazily(g, std::move(out));
}

/// map(attribute=..) or map("filter", ..).
value mapped(guard& g, const value& in, const arguments& given) {
  auto items = copied(g, in);
  if (given.positional.empty()) {
    const auto a = bound_arguments(g, "map", "attribute default", given);
    if (a[0] == nullptr) g.fail("map: a filter's name or attribute= is needed");
    for (auto& v : items) {
      g.step();
      v = path_of(g, v, *a[0]);
      if (is_undefined(v) && unless_none(a[1]) != nullptr) v = *a[1];
    }
    return lazily(g, std::move(items));
  }
  arguments rest{{given.positional.begin() + 1, given.positional.end()}, given.named};
  const auto& name = text_of(g, given.positional[0], "the filter's name").str();
  // A filter that takes another one's name would nest without bound in one step.
  if (is_choosing_filter(name)) g.fail("map: cannot apply " + name);
  for (auto& v : items) v = apply_filter(g, name, v, rest);
  return lazily(g, std::move(items));
}

}  // namespace

const filter sequence_filters[] = {
    {"first", "", [](guard& g, const value& v, const bound&) { return first_or_last(g, v, true); }},
    {"last", "", [](guard& g, const value& v, const bound&) { return first_or_last(g, v, false); }},
    {"list", "", [](guard& g, const value& v, const bound&) { return make_list(g, copied(g, v)); }},
    {"reverse", "", [](guard& g, const value& v, const bound&) { return reversed(g, v); }},
    {"items", "", [](guard& g, const value& v, const bound&) { return key_value_pairs(g, v); }},
    {"join", "d attribute", join_filter},
    {"sort", "reverse case_sensitive attribute", sorted},
    {"dictsort", "case_sensitive by reverse", dict_sorted},
    {"unique", "case_sensitive attribute", unique},
    {"min", "case_sensitive attribute",
     [](guard& g, const value& v, const bound& a) { return extreme(g, v, a, false); }},
    {"max", "case_sensitive attribute",
     [](guard& g, const value& v, const bound& a) { return extreme(g, v, a, true); }},
    {"sum", "attribute start", sum},
    {"groupby", "attribute default case_sensitive", grouped},
    {"batch", "linecount fill_with", batched},
    {nullptr, nullptr, nullptr},
};

bool is_choosing_filter(std::string_view name) {
  return name == "map" || name == "select" || name == "reject" || name == "selectattr" ||
         name == "rejectattr";
}

value apply_choosing_filter(guard& g, const std::string& name, const value& in,
                            const arguments& given) {
  // Jinja takes anything without truth for an empty sequence here.
  if (!truthy(in)) return lazily(g, {});
  if (name == "map") return mapped(g, in, given);
  return chosen(g, in, given, name.ends_with("attr"), name.starts_with("select"));
}

}  // namespace troupe::gpu::jinja
