// What a template expression begins with: a name, or a literal (strings, numbers, tuples, lists and
// dicts).
#include <algorithm>
#include <charconv>

#include "gpu/model/jinja/expr_parser.hpp"

namespace troupe::gpu::jinja {

// A literal, a name or something in brackets. Jinja spells the constants in both cases.
expr_ref expr_parser::primary() {
  const auto& t = peek();
  if (t.kind == token_kind::string) return string_literal();
  if (t.kind == token_kind::integer || t.kind == token_kind::floating) return number_literal();
  if (at_symbol("(")) return bracketed_tuple();
  if (at_symbol("[")) return list_literal();
  if (at_symbol("{")) return dict_literal();
  if (t.kind != token_kind::name || is_reserved(t.body)) fail_unexpected("an expression");
  const auto name = take();
  auto out = make(expr_kind::literal, name.at);
  if (name.body == "true" || name.body == "True") {
    out->constant = true;
  } else if (name.body == "false" || name.body == "False") {
    out->constant = false;
  } else if (name.body == "none" || name.body == "None") {
    out->constant = none{};
  } else {
    out->kind = expr_kind::name;
    out->name = name.body;
    // Jinja decides by the names that a macro's body reads what the macro takes; parser.cpp
    // collects them.
    if (out->name == "caller" || out->name == "varargs" || out->name == "kwargs")
      implied_names.insert(out->name);
  }
  return out;
}

expr_ref expr_parser::string_literal() {
  auto out = make(expr_kind::literal, peek().at);
  std::string all;
  // Adjacent strings are one, as in Python.
  while (peek().kind == token_kind::string) all += unescaped(take().body);
  // The template wrote it.
  out->constant = trusted_text(g_, all);
  return out;
}

// Python's integers have no end; one that does not fit is refused rather than rounded.
expr_ref expr_parser::number_literal() {
  const auto t = take();
  auto out = make(expr_kind::literal, t.at);
  std::string digits(t.body);
  // 1_000 is 1000; the lexer has let underscores through.
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  const auto* end = digits.data() + digits.size();
  if (t.kind == token_kind::integer) {
    std::int64_t number = 0;
    if (std::from_chars(digits.data(), end, number).ec != std::errc{})
      fail_at(t, "a number that does not fit 64 bits");
    out->constant = number;
  } else {
    double number = 0;
    if (std::from_chars(digits.data(), end, number).ec != std::errc{})
      fail_at(t, "a number out of range");
    out->constant = number;
  }
  return out;
}

expr_ref expr_parser::bracketed_tuple() {
  auto out = make(expr_kind::tuple, take().at);
  bool comma = false;
  while (!at_symbol(")")) {
    if (!out->items.empty() && !comma) fail_unexpected("\",\" or \")\"");
    adopt(*out, expression());
    comma = take_symbol(",");
  }
  take();
  // (x) is x, (x,) a tuple, () the empty one.
  return out->items.size() == 1 && !comma ? std::move(out->items[0]) : std::move(out);
}

expr_ref expr_parser::list_literal() {
  auto out = make(expr_kind::list, take().at);
  while (!at_symbol("]")) {
    if (!out->items.empty()) {
      expect_symbol(",");
      if (at_symbol("]")) break;
    }
    adopt(*out, expression());
  }
  take();
  return out;
}

// Keys are expressions: a bare name is a variable, as in Python.
expr_ref expr_parser::dict_literal() {
  auto out = make(expr_kind::dict, take().at);
  while (!at_symbol("}")) {
    if (!out->items.empty()) {
      expect_symbol(",");
      if (at_symbol("}")) break;
    }
    adopt(*out, expression());
    expect_symbol(":");
    adopt(*out, expression());
  }
  take();
  return out;
}

}  // namespace troupe::gpu::jinja
