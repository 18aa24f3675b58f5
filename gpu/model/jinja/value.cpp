#include "gpu/model/jinja/value.hpp"

#include <string.h>

#include <algorithm>

#include "gpu/model/chat_template.hpp"

namespace troupe::gpu::jinja {
namespace {

/// A namespace counts as nothing: it can change later, and the evaluator bounds its own depth.
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

/// What can be compared without surprise; Python would take tuples as well.
void check_key(guard& g, const value& v) {
  if (!std::holds_alternative<text_ref>(v) && !std::holds_alternative<none>(v) && !is_number(v))
    g.fail(std::string("a dict's key is ") + kind_of(v) + ", expected a string or a number");
}

double number(const value& v) {
  if (const auto* b = std::get_if<bool>(&v)) return *b ? 1.0 : 0.0;
  if (const auto* i = std::get_if<std::int64_t>(&v)) return static_cast<double>(*i);
  return std::get<double>(v);
}

}  // namespace

void text::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  bytes_ += bytes;
  // Neighbours of equal trust are one run, so a text has as many runs as its trust changes.
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

// Of the run that holds the byte at `offset`.
std::size_t text::run_at(std::size_t offset) const {
  const auto found =
      std::upper_bound(runs_.begin(), runs_.end(), offset,
                       [](std::size_t wanted, const run& r) { return wanted < r.end; });
  return static_cast<std::size_t>(found - runs_.begin());
}

const value* dict::find(std::string_view wanted) const {
  for (const auto& [key, entry] : entries) {
    const auto* name = std::get_if<text_ref>(&key);
    if (name != nullptr && (*name)->str() == wanted) return &entry;
  }
  return nullptr;
}

// Strings by their bytes, numbers by value: 1, 1.0 and true are one key in Python.
const value* dict::find(guard& g, const value& wanted) const {
  if (const auto* name = std::get_if<text_ref>(&wanted)) return find((*name)->str());
  // No key is undefined.
  if (is_undefined(wanted)) return nullptr;
  check_key(g, wanted);
  for (const auto& [key, entry] : entries) {
    if (equal(g, key, wanted)) return &entry;
  }
  return nullptr;
}

// Lines and columns are counted only now; nothing else needs them.
void guard::fail(const std::string& what) const {
  const auto before = source_.substr(0, at);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto last = before.rfind('\n');
  const auto column = 1 + (last == before.npos ? before.size() : before.size() - last - 1);
  throw template_error("line " + std::to_string(line) + ", column " + std::to_string(column) +
                       ": " + what);
}

void guard::step(std::uint64_t count) {
  steps_ += count;
  if (steps_ > steps_max) fail("more than " + std::to_string(steps_max) + " evaluation steps");
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
  // 64: the object around the bytes, about. Never given back: a rendering is short, and the sum
  // bounds its work as well.
  g.charge(made.size() + 64);
  return std::make_shared<const text>(std::move(made));
}

value trusted_text(guard& g, std::string_view bytes) {
  return make_text(g, text(bytes, true));
}

value make_list(guard& g, std::vector<value> items, list_kind kind) {
  auto out = std::make_shared<list>();
  for (const auto& v : items) out->depth = std::max(out->depth, depth_of(v) + 1);
  g.check_depth(out->depth);
  g.charge(items.size() * sizeof(value) + 64);
  out->items = std::move(items);
  out->kind = kind;
  return list_ref(std::move(out));
}

value make_dict(guard& g, std::vector<std::pair<value, value>> entries) {
  auto out = std::make_shared<dict>();
  g.charge(entries.size() * sizeof(entries[0]) + 64);
  for (auto& entry : entries) {
    g.step(1 + out->entries.size() / 64);  // looking for the key
    check_defined(g, entry.first);
    out->depth = std::max(out->depth, depth_of(entry.second) + 1);
    if (const auto* same = out->find(g, entry.first))
      // This dict is still being made: nothing else refers to it.
      *const_cast<value*>(same) = std::move(entry.second);
    else
      out->entries.push_back(std::move(entry));
  }
  g.check_depth(out->depth);
  return dict_ref(std::move(out));
}

const char* kind_of(const value& v) {
  // In the order of the variant.
  constexpr const char* names[] = {"undefined",   "none",     "a bool",    "an integer",
                                   "a float",     "a string", "a list",    "a dict",
                                   "a namespace", "a loop",   "a function"};
  return names[v.index()];
}

bool is_undefined(const value& v) {
  return std::holds_alternative<undefined>(v);
}

void check_defined(guard& g, const value& v) {
  if (!is_undefined(v)) return;
  const auto& what = std::get<undefined>(v).what;
  g.fail(what == nullptr ? "the value is undefined" : *what + " is undefined");
}

// Python's truth: nothing, zero and what is empty are false.
bool truthy(const value& v) {
  struct visitor {
    bool operator()(const undefined&) const { return false; }
    bool operator()(none) const { return false; }
    bool operator()(bool b) const { return b; }
    bool operator()(std::int64_t i) const { return i != 0; }
    bool operator()(double d) const { return d != 0; }
    bool operator()(const text_ref& t) const { return t->size() != 0; }
    bool operator()(const list_ref& l) const {
      // A generator object is true in Python, whatever it will give.
      return !l->items.empty() || l->kind == list_kind::generator;
    }
    bool operator()(const dict_ref& d) const { return !d->entries.empty(); }
    bool operator()(const namespace_ref&) const { return true; }
    bool operator()(const loop_ref&) const { return true; }
    bool operator()(const callable_ref&) const { return true; }
  };
  return std::visit(visitor{}, v);
}

// Python's ==: numbers by value, whatever their kind; everything else only within its kind.
bool equal(guard& g, const value& a, const value& b) {
  g.step();
  const auto* left = std::get_if<std::int64_t>(&a);
  const auto* right = std::get_if<std::int64_t>(&b);
  // As integers: beyond 2^53 two of them may be one double.
  if (left != nullptr && right != nullptr) return *left == *right;
  if (is_number(a) && is_number(b)) return number(a) == number(b);
  if (a.index() != b.index()) return false;
  if (const auto* t = std::get_if<text_ref>(&a)) return (*t)->str() == std::get<text_ref>(b)->str();
  if (const auto* l = std::get_if<list_ref>(&a)) {
    if ((*l)->kind != std::get<list_ref>(b)->kind) return false;
    // Generators are equal only to themselves, as objects are.
    if ((*l)->kind == list_kind::generator) return *l == std::get<list_ref>(b);
    const auto& x = (*l)->items;
    const auto& y = std::get<list_ref>(b)->items;
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [&](const value& p, const value& q) { return equal(g, p, q); });
  }
  if (const auto* d = std::get_if<dict_ref>(&a)) {
    const auto& other = *std::get<dict_ref>(b);
    if ((*d)->entries.size() != other.entries.size()) return false;
    for (const auto& [key, entry] : (*d)->entries) {
      const auto* found = other.find(g, key);
      if (found == nullptr || !equal(g, entry, *found)) return false;
    }
    return true;
  }
  if (const auto* n = std::get_if<namespace_ref>(&a)) return *n == std::get<namespace_ref>(b);
  return is_undefined(a) || std::holds_alternative<none>(a);
}

// Python's <. Text goes by code points, which for UTF-8 is the order of its bytes.
int order(guard& g, const value& a, const value& b) {
  check_defined(g, a);
  check_defined(g, b);
  const auto* left = std::get_if<std::int64_t>(&a);
  const auto* right = std::get_if<std::int64_t>(&b);
  if (left != nullptr && right != nullptr) return *left < *right ? -1 : *left > *right;
  if (is_number(a) && is_number(b)) return number(a) < number(b) ? -1 : number(a) > number(b);
  if (std::holds_alternative<text_ref>(a) && std::holds_alternative<text_ref>(b)) {
    return std::get<text_ref>(a)->str().compare(std::get<text_ref>(b)->str());
  }
  if (std::holds_alternative<list_ref>(a) && std::holds_alternative<list_ref>(b)) {
    const auto& x = *std::get<list_ref>(a);
    const auto& y = *std::get<list_ref>(b);
    const bool plain = x.kind == list_kind::list || x.kind == list_kind::tuple;
    // Python orders lists with lists and tuples with tuples.
    if (!plain || x.kind != y.kind) g.fail("cannot order sequences of these kinds");
    for (std::size_t i = 0; i < x.items.size() && i < y.items.size(); ++i) {
      if (!equal(g, x.items[i], y.items[i])) return order(g, x.items[i], y.items[i]);
    }
    return x.items.size() < y.items.size() ? -1 : x.items.size() > y.items.size();
  }
  g.fail(std::string("cannot order ") + kind_of(a) + " and " + kind_of(b));
}

// `in`: a part of a text, a key of a dict, an element of anything else.
bool contains(guard& g, const value& container, const value& wanted) {
  if (const auto* t = std::get_if<text_ref>(&container)) {
    const auto& needle = text_of(g, wanted, "the left side of \"in\"").str();
    const auto& hay = (*t)->str();
    // memmem is linear at worst, unlike std::string::find.
    return ::memmem(hay.data(), hay.size(), needle.data(), needle.size()) != nullptr;
  }
  if (const auto* d = std::get_if<dict_ref>(&container)) {
    return (*d)->find(g, wanted) != nullptr;
  }
  const auto all = elements(g, container);  // named: a range-for would not keep the pointer alive
  for (const auto& v : all->items) {
    if (equal(g, v, wanted)) return true;
  }
  return false;
}

}  // namespace troupe::gpu::jinja
