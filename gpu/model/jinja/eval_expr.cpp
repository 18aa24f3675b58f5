// The evaluator's expressions.
#include <algorithm>

#include "gpu/model/jinja/evaluator.hpp"

namespace troupe::gpu::jinja {
namespace {

/// `==` and `in` hold for any two kinds; an order exists only within numbers, strings and
/// sequences.
bool compared(guard& g, const std::string& op, const value& a, const value& b) {
  if (op == "==") return equal(g, a, b);
  if (op == "!=") return !equal(g, a, b);
  if (op == "in") return contains(g, b, a);
  if (op == "not in") return !contains(g, b, a);
  const int relation = order(g, a, b);
  if (op == "<") return relation < 0;
  if (op == "<=") return relation <= 0;
  return op == ">" ? relation > 0 : relation >= 0;
}

}  // namespace

// Every expression is a step, so an endless loop ends whatever it is made of.
value evaluator::eval(const expr& e) {
  const evaluation_depth inside(g_, depth_);
  g_.at = e.at;
  g_.step();
  return eval_kind(e);
}

value evaluator::eval_kind(const expr& e) {
  switch (e.kind) {
    case expr_kind::literal:
      return e.constant;
    case expr_kind::name:
      return eval_name(e);
    case expr_kind::list:
    case expr_kind::tuple:
      return eval_list(e);
    case expr_kind::dict:
      return eval_dict(e);
    // `at` is set again behind the operands, or an error would name the place of the last of them.
    case expr_kind::attribute: {
      const auto object = eval(*e.items[0]);
      g_.at = e.at;
      return attribute(g_, object, e.name);
    }
    case expr_kind::item: {
      const auto object = eval(*e.items[0]);
      const auto key = eval(*e.items[1]);
      g_.at = e.at;
      return item(g_, object, key);
    }
    case expr_kind::slice:
      return eval_slice(e);
    case expr_kind::call:
      return eval_call(e, nullptr);
    case expr_kind::filter: {
      const auto input = eval(*e.items[0]);
      const auto given = eval_arguments(e);
      g_.at = e.at;
      return apply_filter(g_, e.name, input, given);
    }
    case expr_kind::test: {
      const auto input = eval(*e.items[0]);
      const auto given = eval_arguments(e);
      g_.at = e.at;
      return apply_test(g_, e.name, input, given) != e.negated;
    }
    case expr_kind::unary:
      return eval_unary(e);
    case expr_kind::binary:
      return eval_binary(e);
    case expr_kind::compare:
      return eval_compare(e);
    case expr_kind::concat:
      return eval_concat(e);
    case expr_kind::conditional:
      if (truthy(eval(*e.items[1]))) return eval(*e.items[0]);
      return e.items[2] != nullptr ? eval(*e.items[2]) : value(undefined{});
    case expr_kind::captured:
      return captured_;
  }
  g_.fail("unknown expression");
}

value evaluator::eval_name(const expr& e) {
  // Scope 0, the globals, is its own parent.
  for (auto i = here();; i = scopes_[i].parent) {
    if (const auto* found = find_name(scopes_[i].known, e.name)) return *found;
    if (i == 0) break;
  }
  return undefined{std::make_shared<const std::string>("'" + e.name + "'")};
}

value evaluator::eval_list(const expr& e) {
  std::vector<value> items;
  for (const auto& part : e.items) items.push_back(eval(*part));
  return make_list(g_, std::move(items),
                   e.kind == expr_kind::tuple ? list_kind::tuple : list_kind::list);
}

// Key before value, entry by entry; of equal keys the last wins (make_dict).
value evaluator::eval_dict(const expr& e) {
  std::vector<std::pair<value, value>> entries;
  for (std::size_t i = 0; i < e.items.size(); i += 2) {
    auto key = eval(*e.items[i]);
    entries.emplace_back(std::move(key), eval(*e.items[i + 1]));
  }
  g_.at = e.at;
  return make_dict(g_, std::move(entries));
}

value evaluator::eval_unary(const expr& e) {
  const auto operand = eval(*e.items[0]);
  g_.at = e.at;
  if (e.name == "not") return !truthy(operand);
  // 0 - x: the same checks and overflow as any difference.
  return arithmetic(g_, e.name, std::int64_t{0}, operand);
}

value evaluator::eval_binary(const expr& e) {
  auto left = eval(*e.items[0]);
  // Python's and, or: the deciding operand itself is the value, and the right one may never be
  // computed.
  if (e.name == "and") return truthy(left) ? eval(*e.items[1]) : left;
  if (e.name == "or") return truthy(left) ? left : eval(*e.items[1]);
  const auto right = eval(*e.items[1]);
  g_.at = e.at;
  return arithmetic(g_, e.name, left, right);
}

value evaluator::eval_compare(const expr& e) {
  auto left = eval(*e.items[0]);
  for (std::size_t i = 0; i < e.operators.size(); ++i) {
    auto right = eval(*e.items[i + 1]);
    g_.at = e.at;
    // a < b < c: each operand is computed once, and none behind the first that fails.
    if (!compared(g_, e.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

// By print(), which checks the size before it appends.
value evaluator::eval_concat(const expr& e) {
  text out;
  for (const auto& part : e.items) print(eval(*part), out);
  return make_text(g_, std::move(out));
}

// Parts that were left out are None, as in Python's slice().
value evaluator::eval_slice(const expr& e) {
  const auto object = eval(*e.items[0]);
  const auto part = [&](std::size_t i) {
    return e.items[i] == nullptr ? value(none{}) : eval(*e.items[i]);
  };
  const auto start = part(1), stop = part(2), step = part(3);
  g_.at = e.at;
  return slice(g_, object, start, stop, step);
}

}  // namespace troupe::gpu::jinja
