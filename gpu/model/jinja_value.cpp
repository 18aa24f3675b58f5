#include "gpu/model/jinja_value.hpp"

#include <string.h>

#include <algorithm>

#include "gpu/model/chat_template.hpp"

namespace troupe::gpu::jinja {
namespace {

int depth_of(const value& v) {
  if (const auto* l = std::get_if<list_ref>(&v)) return (*l)->depth;
  if (const auto* d = std::get_if<dict_ref>(&v)) return (*d)->depth;
  if (const auto* loop = std::get_if<loop_ref>(&v)) return (*loop)->items->depth + 1;
  return 0;
}

bool is_number(const value& v) {
  return std::holds_alternative<bool>(v) || std::holds_alternative<std::int64_t>(v) ||
         std::holds_alternative<double>(v);
}

double number(const value& v) {
  if (const auto* b = std::get_if<bool>(&v)) return *b ? 1.0 : 0.0;
  if (const auto* i = std::get_if<std::int64_t>(&v)) return static_cast<double>(*i);
  return std::get<double>(v);
}

value nothing(std::string what) {
  return undefined{std::make_shared<const std::string>(std::move(what))};
}

[[noreturn]] void fail_undefined(guard& g, const value& v) {
  const auto& what = std::get<undefined>(v).what;
  g.fail(what == nullptr ? "the value is undefined" : *what + " is undefined");
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
  if (name == "depth") return std::int64_t{1};  // counts recursive loops, which are not supported
  if (name == "depth0") return std::int64_t{0};
  if (name == "previtem")
    return loop.index0 > 0 ? loop.items->items[loop.index0 - 1] : nothing("loop.previtem");
  if (name == "nextitem")
    return loop.index0 + 1 < size ? loop.items->items[loop.index0 + 1] : nothing("loop.nextitem");
  g.fail("loop." + std::string(name) + " is not supported");
}

/// Offsets of the characters of a string, and its size at the end.
std::vector<std::size_t> character_offsets(guard& g, std::string_view bytes) {
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
    for (auto i = from; i<to; i = by> to - i ? to : i + by)
      out.push_back(static_cast<std::size_t>(i));
  } else {
    for (auto i = from; i > to; i = by < to - i ? to : i + by)
      out.push_back(static_cast<std::size_t>(i));
  }
  return out;
}

}  // namespace

void text::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  bytes_ += bytes;
  if (!runs_.empty() && runs_.back().trusted == trusted)
    runs_.back().end = bytes_.size();
  else
    runs_.push_back({bytes_.size(), trusted});
}

void text::append_part(const text& other, std::size_t begin, std::size_t end) {
  other.for_each_run(begin, end,
                     [this](std::string_view bytes, bool trusted) { append(bytes, trusted); });
}

text text::part(std::size_t begin, std::size_t end) const {
  text out;
  out.append_part(*this, begin, end);
  return out;
}

std::size_t text::run_at(std::size_t offset) const {
  const auto found =
      std::upper_bound(runs_.begin(), runs_.end(), offset,
                       [](std::size_t wanted, const run& r) { return wanted < r.end; });
  return static_cast<std::size_t>(found - runs_.begin());
}

const value* dict::find(std::string_view key) const {
  for (const auto& [name, entry] : entries) {
    if (name->str() == key) return &entry;
  }
  return nullptr;
}

void guard::fail(const std::string& what) const {
  const auto before = source_.substr(0, at);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto last = before.rfind('\n');
  const auto column = 1 + (last == before.npos ? before.size() : before.size() - last - 1);
  throw template_error("line " + std::to_string(line) + ", column " + std::to_string(column) +
                       ": " + what);
}

void guard::step() {
  if (++steps_ > steps_max) fail("more than " + std::to_string(steps_max) + " evaluation steps");
}

void guard::charge(std::size_t bytes) {
  if (bytes > made_bytes_max - made_bytes_)
    fail("more than " + std::to_string(made_bytes_max) + " bytes of values");
  made_bytes_ += bytes;
}

void guard::check_depth(int depth) const {
  if (depth > depth_max) fail("nested more than " + std::to_string(depth_max) + " deep");
}

value make_text(guard& g, text made) {
  if (made.size() > guard::output_bytes_max) {
    g.fail("a string of more than " + std::to_string(guard::output_bytes_max) + " bytes");
  }
  g.charge(made.size() + 64);
  return std::make_shared<const text>(std::move(made));
}

value trusted_text(guard& g, std::string_view bytes) {
  return make_text(g, text(bytes, true));
}

value make_list(guard& g, std::vector<value> items, bool tuple) {
  auto out = std::make_shared<list>();
  for (const auto& v : items) out->depth = std::max(out->depth, depth_of(v) + 1);
  g.check_depth(out->depth);
  g.charge(items.size() * sizeof(value) + 64);
  out->items = std::move(items);
  out->tuple = tuple;
  return list_ref(std::move(out));
}

value make_dict(guard& g, std::vector<std::pair<text_ref, value>> entries) {
  auto out = std::make_shared<dict>();
  for (const auto& [key, v] : entries) out->depth = std::max(out->depth, depth_of(v) + 1);
  g.check_depth(out->depth);
  g.charge(entries.size() * sizeof(entries[0]) + 64);
  out->entries = std::move(entries);
  return dict_ref(std::move(out));
}

const char* kind_of(const value& v) {
  constexpr const char* names[] = {"undefined",   "none",     "a bool",    "an integer",
                                   "a float",     "a string", "a list",    "a dict",
                                   "a namespace", "a loop",   "a function"};
  return names[v.index()];
}

bool is_undefined(const value& v) {
  return std::holds_alternative<undefined>(v);
}

bool truthy(const value& v) {
  struct visitor {
    bool operator()(const undefined&) const { return false; }
    bool operator()(none) const { return false; }
    bool operator()(bool b) const { return b; }
    bool operator()(std::int64_t i) const { return i != 0; }
    bool operator()(double d) const { return d != 0; }
    bool operator()(const text_ref& t) const { return t->size() != 0; }
    bool operator()(const list_ref& l) const { return !l->items.empty(); }
    bool operator()(const dict_ref& d) const { return !d->entries.empty(); }
    bool operator()(const namespace_ref&) const { return true; }
    bool operator()(const loop_ref&) const { return true; }
    bool operator()(const callable_ref&) const { return true; }
  };
  return std::visit(visitor{}, v);
}

bool equal(guard& g, const value& a, const value& b) {
  g.step();
  const auto* left = std::get_if<std::int64_t>(&a);
  const auto* right = std::get_if<std::int64_t>(&b);
  if (left != nullptr && right != nullptr) return *left == *right;
  if (is_number(a) && is_number(b)) return number(a) == number(b);
  if (a.index() != b.index()) return false;
  if (const auto* t = std::get_if<text_ref>(&a)) return (*t)->str() == std::get<text_ref>(b)->str();
  if (const auto* l = std::get_if<list_ref>(&a)) {
    const auto& x = (*l)->items;
    const auto& y = std::get<list_ref>(b)->items;
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [&](const value& p, const value& q) { return equal(g, p, q); });
  }
  if (const auto* d = std::get_if<dict_ref>(&a)) {
    const auto& other = *std::get<dict_ref>(b);
    if ((*d)->entries.size() != other.entries.size()) return false;
    for (const auto& [key, entry] : (*d)->entries) {
      const auto* found = other.find(key->str());
      if (found == nullptr || !equal(g, entry, *found)) return false;
    }
    return true;
  }
  if (const auto* n = std::get_if<namespace_ref>(&a)) return *n == std::get<namespace_ref>(b);
  return is_undefined(a) || std::holds_alternative<none>(a);
}

int order(guard& g, const value& a, const value& b) {
  if (is_undefined(a)) fail_undefined(g, a);
  if (is_undefined(b)) fail_undefined(g, b);
  const auto* left = std::get_if<std::int64_t>(&a);
  const auto* right = std::get_if<std::int64_t>(&b);
  if (left != nullptr && right != nullptr) return *left < *right ? -1 : *left > *right;
  if (is_number(a) && is_number(b)) return number(a) < number(b) ? -1 : number(a) > number(b);
  if (std::holds_alternative<text_ref>(a) && std::holds_alternative<text_ref>(b)) {
    return std::get<text_ref>(a)->str().compare(std::get<text_ref>(b)->str());
  }
  g.fail(std::string("cannot order ") + kind_of(a) + " and " + kind_of(b));
}

bool contains(guard& g, const value& container, const value& wanted) {
  if (const auto* t = std::get_if<text_ref>(&container)) {
    const auto& needle = text_of(g, wanted, "the left side of \"in\"").str();
    const auto& hay = (*t)->str();
    // memmem is linear at worst, unlike std::string::find.
    return ::memmem(hay.data(), hay.size(), needle.data(), needle.size()) != nullptr;
  }
  if (const auto* d = std::get_if<dict_ref>(&container)) {
    const auto* key = std::get_if<text_ref>(&wanted);
    return key != nullptr && (*d)->find((*key)->str()) != nullptr;
  }
  const auto all = elements(g, container);  // named: a range-for would not keep the pointer alive
  for (const auto& v : all->items) {
    if (equal(g, v, wanted)) return true;
  }
  return false;
}

value attribute(guard& g, const value& object, std::string_view name) {
  if (is_undefined(object)) fail_undefined(g, object);
  if (const auto* d = std::get_if<dict_ref>(&object)) {
    if (const auto* found = (*d)->find(name)) return *found;
  } else if (const auto* n = std::get_if<namespace_ref>(&object)) {
    const auto found = (*n)->entries.find(name);
    if (found != (*n)->entries.end()) return found->second;
  } else if (const auto* loop = std::get_if<loop_ref>(&object)) {
    return loop_attribute(g, **loop, name);
  }
  return nothing("'" + std::string(name) + "' of " + kind_of(object));
}

value item(guard& g, const value& object, const value& key) {
  if (is_undefined(object)) fail_undefined(g, object);
  if (const auto* name = std::get_if<text_ref>(&key)) return attribute(g, object, (*name)->str());
  if (!std::holds_alternative<list_ref>(object) && !std::holds_alternative<text_ref>(object)) {
    return nothing(std::string("an item of ") + kind_of(object));
  }
  if (is_undefined(key)) fail_undefined(g, key);
  auto at = integer(g, key, "index");
  if (const auto* l = std::get_if<list_ref>(&object)) {
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
  return make_text(g, string.part(offsets[i], offsets[i + 1]));
}

value slice(guard& g, const value& object, const value& start, const value& stop,
            const value& step) {
  if (is_undefined(object)) fail_undefined(g, object);
  if (const auto* l = std::get_if<list_ref>(&object)) {
    std::vector<value> out;
    for (const auto i :
         slice_indices(g, static_cast<std::int64_t>((*l)->items.size()), start, stop, step)) {
      out.push_back((*l)->items[i]);
    }
    return make_list(g, std::move(out), (*l)->tuple);
  }
  const auto& string = text_of(g, object, "what is sliced");
  const auto offsets = character_offsets(g, string.str());
  text out;
  for (const auto i :
       slice_indices(g, static_cast<std::int64_t>(offsets.size()) - 1, start, stop, step)) {
    out.append_part(string, offsets[i], offsets[i + 1]);
  }
  return make_text(g, std::move(out));
}

list_ref elements(guard& g, const value& v) {
  if (const auto* l = std::get_if<list_ref>(&v)) return *l;
  std::vector<value> out;
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
  if (const auto* l = std::get_if<list_ref>(&v))
    return static_cast<std::int64_t>((*l)->items.size());
  if (const auto* d = std::get_if<dict_ref>(&v))
    return static_cast<std::int64_t>((*d)->entries.size());
  if (is_undefined(v)) return 0;
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
  if (is_undefined(v)) fail_undefined(g, v);
  g.fail(std::string(what) + " is " + kind_of(v) + ", expected a string");
}

}  // namespace troupe::gpu::jinja
