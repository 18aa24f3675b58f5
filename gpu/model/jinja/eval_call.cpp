// The evaluator's calls: functions, methods, macros, call blocks and recursive loops.
#include <algorithm>

#include "gpu/model/jinja/evaluator.hpp"

namespace troupe::gpu::jinja {

value evaluator::function_of(const node& n) {
  auto out = std::make_shared<callable>();
  out->macro = &n;
  out->home = home();
  return callable_ref(std::move(out));
}

void evaluator::check_alive(const home_scope& home, const std::string& what) const {
  // Scopes are a stack that is reused, so an index alone could name another block's scope; the
  // serial tells them apart. Python would keep the scope alive instead.
  if (home.index >= scopes_.size() || scopes_[home.index].serial != home.serial)
    g_.fail(what + " is called after the block it was made in has ended");
}

arguments evaluator::eval_arguments(const expr& e) {
  arguments out;
  for (std::size_t i = 1; i < e.items.size(); ++i) {
    const auto& given = *e.items[i];
    if (given.kind != expr_kind::unary || given.name != "*") {
      out.positional.push_back(eval(given));
      continue;
    }
    // *args may stand anywhere among the positional ones.
    const auto all = elements(g_, eval(*given.items[0]));
    out.positional.insert(out.positional.end(), all->items.begin(), all->items.end());
  }
  for (const auto& [name, given] : e.named) {
    auto v = eval(*given);
    if (name != "**") {
      out.named.emplace_back(name, std::move(v));
      continue;
    }
    const auto* entries = std::get_if<dict_ref>(&v);
    if (entries == nullptr) g_.fail(std::string("** of ") + kind_of(v) + ", expected a dict");
    for (const auto& [key, entry] : (*entries)->entries)
      out.named.emplace_back(text_of(g_, key, "a key after **").str(), entry);
  }
  return out;
}

value evaluator::eval_call(const expr& e, const value* caller) {
  const auto& callee = *e.items[0];
  // `x.f(...)` never makes a bound method a value: what is called is decided here, or refused.
  const bool member = callee.kind == expr_kind::attribute;
  const auto object = eval(member ? *callee.items[0] : callee);
  auto given = eval_arguments(e);
  // A call block's body comes as an argument of this name, as Jinja passes it.
  if (caller != nullptr) given.named.emplace_back("caller", *caller);
  g_.at = member ? callee.at : e.at;
  if (!member) {
    if (callee.kind == expr_kind::name) check_defined(g_, object);
    return call(object, given);
  }
  check_defined(g_, object);
  // What a dict holds is behind its methods; a namespace has none.
  const value* held = nullptr;
  if (const auto* n = std::get_if<namespace_ref>(&object)) {
    const auto found = (*n)->entries.find(callee.name);
    if (found != (*n)->entries.end()) held = &found->second;
  } else if (const auto* d = std::get_if<dict_ref>(&object)) {
    held = (*d)->find(callee.name);
  }
  // Copied: the call may change the namespace that holds it.
  if (held != nullptr && std::holds_alternative<callable_ref>(*held))
    return call(value(*held), given);
  return call_method(g_, object, callee.name, given);
}

value evaluator::call(const value& target, const arguments& given) {
  if (const auto* loop = std::get_if<loop_ref>(&target)) return call_loop(**loop, given);
  const auto* called = std::get_if<callable_ref>(&target);
  if (called == nullptr) g_.fail(std::string(kind_of(target)) + " cannot be called");
  if ((*called)->macro != nullptr) return call_macro(**called, given);
  auto out = call_function(g_, (*called)->builtin, given);
  // A namespace may come to hold itself; the evaluator empties all of them at its end.
  if (const auto* made = std::get_if<namespace_ref>(&out)) namespaces_.push_back(*made);
  return out;
}

value evaluator::call_loop(const loop_state& loop, const arguments& given) {
  const evaluation_depth inside(g_, depth_);
  if (loop.recursive == nullptr) g_.fail("loop can be called only in a loop marked recursive");
  const auto a = bound_arguments(g_, "loop", "iterable", given);
  if (a[0] == nullptr) g_.fail("loop: iterable is missing");
  check_alive(loop.home, "loop");
  text out;
  // Run where the loop stands, not where it is called: names are looked up there.
  run_loop(*loop.recursive, *a[0], loop.depth0 + 1, loop.home.index, out);
  return make_text(g_, std::move(out));
}

value evaluator::call_macro(const callable& called, const arguments& given) {
  const evaluation_depth inside(g_, depth_);
  const auto& macro = *called.macro;
  check_alive(called.home, macro.name);
  arguments bound;  // what the parameters take; the rest is for varargs, kwargs and caller
  std::vector<value> more;
  std::vector<std::pair<value, value>> more_named;
  value caller = undefined{std::make_shared<const std::string>("'caller'")};
  std::string parameters;
  for (const auto& [name, otherwise] : macro.parameters)
    parameters += (parameters.empty() ? "" : " ") + name;
  const auto is_parameter = [&](std::string_view name) {
    return std::any_of(macro.parameters.begin(), macro.parameters.end(),
                       [&](const auto& p) { return p.first == name; });
  };
  for (std::size_t i = 0; i < given.positional.size(); ++i) {
    // Without `varargs` in the body, too many arguments are an error, as in Jinja.
    const bool extra = macro.takes_varargs && i >= macro.parameters.size();
    (extra ? more : bound.positional).push_back(given.positional[i]);
  }
  for (const auto& [name, v] : given.named) {
    if (name == "caller" && macro.takes_caller && !is_parameter(name))
      caller = v;
    else if (macro.takes_kwargs && !is_parameter(name))
      more_named.emplace_back(trusted_text(g_, name), v);
    else
      bound.named.emplace_back(name, v);
  }
  const auto a = bound_arguments(g_, macro.name, parameters, bound);
  // The parent is the scope it was made in: macros see names by where they are written.
  push_scope(called.home.index);
  if (macro.takes_caller) set_name(scopes_.back().known, "caller", caller);
  if (macro.takes_varargs)
    set_name(scopes_.back().known, "varargs", make_list(g_, std::move(more), list_kind::tuple));
  if (macro.takes_kwargs)
    set_name(scopes_.back().known, "kwargs", make_dict(g_, std::move(more_named)));
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto& [name, otherwise] = macro.parameters[i];
    // A default sees the parameters before it.
    const value v =
        a[i] != nullptr ? *a[i]
        : otherwise != nullptr
            ? eval(*otherwise)
            : value(undefined{std::make_shared<const std::string>("parameter '" + name + "'")});
    set_name(scopes_.back().known, name, v);
  }
  text out;
  run(macro.inner, out);
  scopes_.pop_back();
  return make_text(g_, std::move(out));
}

}  // namespace troupe::gpu::jinja
