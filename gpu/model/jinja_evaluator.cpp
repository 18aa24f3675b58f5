#include "gpu/model/jinja_evaluator.hpp"

#include <algorithm>

namespace troupe::gpu::jinja {
namespace {

/// Macros inside macros multiply the depth of their bodies, so the evaluator counts on its own.
/// About 300 bytes to 1 KiB of stack each.
constexpr int evaluation_depth_max = 400;

class nested {
 public:
  nested(guard& g, int& depth) : depth_(depth) {
    if (depth >= evaluation_depth_max)
      g.fail("evaluation nested more than " + std::to_string(evaluation_depth_max) + " deep");
    ++depth_;
  }
  ~nested() { --depth_; }
  nested(const nested&) = delete;
  nested& operator=(const nested&) = delete;

 private:
  int& depth_;
};

value* find_in(evaluator::scope& names, std::string_view name) {
  for (auto& [key, v] : names) {
    if (key == name) return &v;
  }
  return nullptr;
}

void set_in(evaluator::scope& names, const std::string& name, const value& v) {
  if (auto* found = find_in(names, name))
    *found = v;
  else
    names.emplace_back(name, v);
}

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

evaluator::evaluator(guard& g, scope globals) : g_(g) {
  const auto add = [&](const char* name, function which) {
    auto out = std::make_shared<callable>();
    out->builtin = which;
    globals.emplace_back(name, callable_ref(std::move(out)));
  };
  add("range", function::range);
  add("namespace", function::make_namespace);
  add("dict", function::make_dict);
  add("raise_exception", function::raise_exception);
  add("strftime_now", function::strftime_now);
  scopes_.push_back(std::move(globals));
  scopes_.emplace_back();
}

evaluator::~evaluator() {
  for (const auto& n : namespaces_) {
    // Moved out first: what an entry holds may hold this namespace again.
    auto entries = std::move(n->entries);
    n->entries.clear();
    entries.clear();
  }
}

text evaluator::render(const body& statements) {
  text out;
  run(statements, out);
  return out;
}

void evaluator::print(const value& v, text& out) {
  const auto shown = printed(g_, v);
  if (shown.size() > guard::output_bytes_max - std::min(out.size(), guard::output_bytes_max)) {
    g_.fail("more than " + std::to_string(guard::output_bytes_max) + " bytes of output");
  }
  g_.charge(shown.size());
  out.append(shown);
}

evaluator::flow evaluator::run(const body& statements, text& out) {
  const nested here(g_, depth_);
  for (const auto& statement : statements) {
    const auto ended = run_one(*statement, out);
    if (ended != flow::done) return ended;
  }
  return flow::done;
}

evaluator::flow evaluator::run_one(const node& n, text& out) {
  g_.at = n.at;
  g_.step();
  switch (n.kind) {
    case node_kind::data:
      print(n.text, out);
      return flow::done;
    case node_kind::print:
      print(eval(*n.subject), out);
      return flow::done;
    case node_kind::branch:
      return run_branch(n, out);
    case node_kind::loop:
      return run_loop(n, out);
    case node_kind::block:
      return run(n.inner, out);
    case node_kind::stop_loop:
      return flow::stop_loop;
    case node_kind::next_loop:
      return flow::next_loop;
    case node_kind::assign:
      assign(*n.target, eval(*n.subject));
      return flow::done;
    case node_kind::capture: {
      text captured;
      const auto ended = run(n.inner, captured);
      assign(*n.target, make_text(g_, std::move(captured)));
      return ended;
    }
    case node_kind::macro: {
      auto macro = std::make_shared<callable>();
      macro->macro = &n;
      set_in(scopes_.back(), n.name, callable_ref(std::move(macro)));
      return flow::done;
    }
  }
  return flow::done;
}

evaluator::flow evaluator::run_branch(const node& n, text& out) {
  for (const auto& [condition, inner] : n.branches) {
    if (truthy(eval(*condition))) return run(inner, out);
  }
  return run(n.inner, out);
}

evaluator::flow evaluator::run_loop(const node& n, text& out) {
  auto items = elements(g_, eval(*n.subject));
  scopes_.emplace_back();
  const std::size_t mine = scopes_.size() - 1;
  if (n.condition != nullptr) {
    std::vector<value> kept;
    for (const auto& v : items->items) {
      g_.step();
      scopes_[mine].clear();
      assign(*n.target, v);
      if (truthy(eval(*n.condition))) kept.push_back(v);
    }
    items = std::get<list_ref>(make_list(g_, std::move(kept)));
  }
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    g_.step();
    scopes_[mine].clear();
    auto state = std::make_shared<loop_state>();
    state->items = items;
    state->index0 = i;
    set_in(scopes_[mine], "loop", loop_ref(std::move(state)));
    assign(*n.target, items->items[i]);
    if (run(n.inner, out) == flow::stop_loop) break;
  }
  scopes_.pop_back();
  return items->items.empty() ? run(n.otherwise, out) : flow::done;
}

void evaluator::assign(const expr& target, const value& v) {
  g_.at = target.at;
  if (target.kind == expr_kind::name) return set_in(scopes_.back(), target.name, v);
  if (target.kind == expr_kind::attribute) {
    const auto owner = eval(*target.items[0]);
    const auto* names = std::get_if<namespace_ref>(&owner);
    if (names == nullptr)
      g_.fail(std::string("cannot set an attribute of ") + kind_of(owner) +
              ", only of a namespace");
    g_.charge(target.name.size() + sizeof(value) + 64);
    (*names)->entries.insert_or_assign(target.name, v);
    return;
  }
  const auto parts = elements(g_, v);
  if (parts->items.size() != target.items.size()) {
    g_.fail("cannot unpack " + std::to_string(parts->items.size()) + " values into " +
            std::to_string(target.items.size()) + " names");
  }
  for (std::size_t i = 0; i < target.items.size(); ++i) assign(*target.items[i], parts->items[i]);
}

value evaluator::eval(const expr& e) {
  const nested here(g_, depth_);
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
      return eval_call(e);
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
  }
  g_.fail("unknown expression");
}

value evaluator::eval_name(const expr& e) {
  for (auto i = scopes_.size(); i > frame_; --i) {
    if (const auto* found = find_in(scopes_[i - 1], e.name)) return *found;
  }
  for (const std::size_t i : {1, 0}) {
    if (const auto* found = find_in(scopes_[i], e.name)) return *found;
  }
  return undefined{std::make_shared<const std::string>("'" + e.name + "'")};
}

value evaluator::eval_list(const expr& e) {
  std::vector<value> items;
  for (const auto& part : e.items) items.push_back(eval(*part));
  return make_list(g_, std::move(items), e.kind == expr_kind::tuple);
}

value evaluator::eval_dict(const expr& e) {
  std::vector<std::pair<text_ref, value>> entries;
  for (std::size_t i = 0; i < e.items.size(); i += 2) {
    const auto key = eval(*e.items[i]);
    const auto* name = std::get_if<text_ref>(&key);
    if (name == nullptr)
      g_.fail(std::string("a dict's key is ") + kind_of(key) + ", expected a string");
    auto v = eval(*e.items[i + 1]);
    const auto same = std::find_if(entries.begin(), entries.end(),
                                   [&](const auto& x) { return x.first->str() == (*name)->str(); });
    if (same != entries.end())
      same->second = std::move(v);
    else
      entries.emplace_back(*name, std::move(v));
  }
  return make_dict(g_, std::move(entries));
}

value evaluator::eval_unary(const expr& e) {
  const auto operand = eval(*e.items[0]);
  g_.at = e.at;
  if (e.name == "not") return !truthy(operand);
  return arithmetic(g_, e.name, std::int64_t{0}, operand);
}

value evaluator::eval_binary(const expr& e) {
  auto left = eval(*e.items[0]);
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
    if (!compared(g_, e.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

value evaluator::eval_concat(const expr& e) {
  text out;
  for (const auto& part : e.items) print(eval(*part), out);
  return make_text(g_, std::move(out));
}

value evaluator::eval_slice(const expr& e) {
  const auto object = eval(*e.items[0]);
  const auto part = [&](std::size_t i) {
    return e.items[i] == nullptr ? value(none{}) : eval(*e.items[i]);
  };
  const auto start = part(1), stop = part(2), step = part(3);
  g_.at = e.at;
  return slice(g_, object, start, stop, step);
}

arguments evaluator::eval_arguments(const expr& e) {
  arguments out;
  for (std::size_t i = 1; i < e.items.size(); ++i) out.positional.push_back(eval(*e.items[i]));
  for (const auto& [name, given] : e.named) out.named.emplace_back(name, eval(*given));
  return out;
}

value evaluator::eval_call(const expr& e) {
  const auto& callee = *e.items[0];
  if (callee.kind == expr_kind::attribute) {
    const auto object = eval(*callee.items[0]);
    const auto given = eval_arguments(e);
    g_.at = callee.at;
    if (is_undefined(object))
      attribute(g_, object, callee.name);  // fails, naming what is undefined
    return call_method(g_, object, callee.name, given);
  }
  const auto target = eval(callee);
  const auto given = eval_arguments(e);
  g_.at = e.at;
  const auto* called = std::get_if<callable_ref>(&target);
  if (called == nullptr) {
    g_.fail(callee.kind == expr_kind::name && is_undefined(target)
                ? "'" + callee.name + "' is undefined"
                : std::string(kind_of(target)) + " cannot be called");
  }
  if ((*called)->macro != nullptr) return call_macro(*(*called)->macro, given);
  auto out = call_function(g_, (*called)->builtin, given);
  if (const auto* made = std::get_if<namespace_ref>(&out)) namespaces_.push_back(*made);
  return out;
}

value evaluator::call_macro(const node& macro, const arguments& given) {
  const nested here(g_, depth_);
  std::string names;
  for (const auto& [name, otherwise] : macro.parameters) names += (names.empty() ? "" : " ") + name;
  const auto a = bound_arguments(g_, macro.name, names, given);
  const auto outer_frame = frame_;
  scopes_.emplace_back();
  frame_ = scopes_.size() - 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto& [name, otherwise] = macro.parameters[i];
    const value v = a[i] != nullptr        ? *a[i]
                    : otherwise != nullptr ? eval(*otherwise)
                                           : value(undefined{});
    set_in(scopes_.back(), name, v);
  }
  text out;
  run(macro.inner, out);
  scopes_.pop_back();
  frame_ = outer_frame;
  return make_text(g_, std::move(out));
}

}  // namespace troupe::gpu::jinja
