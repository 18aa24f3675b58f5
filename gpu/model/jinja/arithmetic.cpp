// Numbers of the template engine: Python's operators on 64-bit integers and doubles, overflow an
// error.
#include <cmath>

#include "gpu/model/jinja/functions.hpp"

namespace troupe::gpu::jinja {
namespace {

/// Python's bool is an int: true + 1 is 2.
bool is_integer(const value& v) {
  return std::holds_alternative<std::int64_t>(v) || std::holds_alternative<bool>(v);
}
bool is_number(const value& v) {
  return is_integer(v) || std::holds_alternative<double>(v);
}

double real(guard& g, const value& v) {
  if (const auto* d = std::get_if<double>(&v)) return *d;
  return static_cast<double>(integer(g, v, "operand"));
}

/// Rounds towards minus infinity, as Python's // does. The caller excludes division by 0 and
/// overflow.
std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

value integers(guard& g, const std::string& op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  bool overflow = false;
  if (op == "+") {
    // Python's integers never overflow; a wrapped one would be a wrong answer without a word.
    overflow = __builtin_add_overflow(a, b, &out);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &out);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &out);
  } else if (op == "**") {
    // As Python: a negative exponent makes a float.
    if (b < 0) return std::pow(static_cast<double>(a), static_cast<double>(b));
    out = 1;
    // Squaring: 64 rounds at most; the base may overflow only while it is still needed.
    for (std::int64_t base = a; b > 0 && !overflow;) {
      if ((b & 1) != 0) overflow = __builtin_mul_overflow(out, base, &out);
      b >>= 1;
      if (b > 0) overflow = overflow || __builtin_mul_overflow(base, base, &base);
    }
  } else {
    if (b == 0) g.fail("division by zero");
    if (op == "/") return static_cast<double>(a) / static_cast<double>(b);
    // INT64_MIN / -1 traps on x86, so it is a subtraction here; the remainder by -1 is always 0.
    if (b == -1)
      overflow = __builtin_sub_overflow(std::int64_t{0}, op == "//" ? a : std::int64_t{0}, &out);
    else
      out = op == "//" ? floor_quotient(a, b) : a - floor_quotient(a, b) * b;
  }
  if (overflow) g.fail("the result of \"" + op + "\" does not fit 64 bits");
  return out;
}

value reals(guard& g, const std::string& op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") return std::pow(a, b);
  if (b == 0) g.fail("division by zero");
  if (op == "/") return a / b;
  if (op == "//") return std::floor(a / b);
  // Python's remainder has the sign of the divisor, C's that of the dividend.
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

void check_addable(guard& g, const list& l) {
  if (l.kind != list_kind::list && l.kind != list_kind::tuple)
    g.fail("a range, generator or dict view cannot be added or repeated; use | list");
}

value repeated(guard& g, const value& what, std::int64_t count) {
  if (count < 0) count = 0;
  if (const auto* t = std::get_if<text_ref>(&what)) {
    const auto size = (*t)->size();
    // Before it is made: the count comes from the template.
    if (size != 0 && static_cast<std::uint64_t>(count) > guard::output_bytes_max / size) {
      g.fail("a string of more than " + std::to_string(guard::output_bytes_max) + " bytes");
    }
    text out;
    out.markup = (*t)->markup;
    for (std::int64_t i = 0; size != 0 && i < count; ++i) out.append(**t);
    return make_text(g, std::move(out));
  }
  check_addable(g, *std::get<list_ref>(what));
  const auto& items = std::get<list_ref>(what)->items;
  std::vector<value> out;
  for (std::int64_t i = 0; !items.empty() && i < count; ++i) {
    for (const auto& v : items) {
      g.step();
      out.push_back(v);
    }
  }
  return make_list(g, std::move(out), std::get<list_ref>(what)->kind);
}

}  // namespace

value arithmetic(guard& g, const std::string& op, const value& left, const value& right) {
  if (is_integer(left) && is_integer(right)) {
    return integers(g, op, integer(g, left, "operand"), integer(g, right, "operand"));
  }
  if (is_number(left) && is_number(right)) return reals(g, op, real(g, left), real(g, right));
  const auto* a = std::get_if<text_ref>(&left);
  const auto* b = std::get_if<text_ref>(&right);
  const auto* x = std::get_if<list_ref>(&left);
  const auto* y = std::get_if<list_ref>(&right);
  if (op == "+" && a != nullptr && b != nullptr) {
    // Markup's +: the side that is not marked is escaped.
    const bool markup = (*a)->markup || (*b)->markup;
    text out = markup ? escaped(g, **a) : **a;
    out.append(markup ? escaped(g, **b) : **b);
    return make_text(g, std::move(out));
  }
  if (op == "%" && a != nullptr) return make_text(g, percent_formatted(g, **a, right));
  if (op == "+" && x != nullptr && y != nullptr) {
    check_addable(g, **x);
    if ((*x)->kind != (*y)->kind) g.fail("cannot add a list and another sequence; use | list");
    auto items = (*x)->items;
    items.insert(items.end(), (*y)->items.begin(), (*y)->items.end());
    return make_list(g, std::move(items), (*x)->kind);
  }
  if (op == "*" && (a != nullptr || x != nullptr) && is_integer(right))
    return repeated(g, left, integer(g, right, "count"));
  if (op == "*" && (b != nullptr || y != nullptr) && is_integer(left))
    return repeated(g, right, integer(g, left, "count"));
  // An undefined operand is named by what was looked up: a misspelt field is the usual cause.
  const auto named = [](const value& v) {
    const auto* u = std::get_if<undefined>(&v);
    return u != nullptr && u->what != nullptr ? *u->what + " (undefined)" : std::string(kind_of(v));
  };
  g.fail("cannot compute " + named(left) + " " + op + " " + named(right));
}

}  // namespace troupe::gpu::jinja
