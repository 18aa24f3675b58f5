#include "gpu/model/jinja/evaluator.hpp"

#include <algorithm>

namespace troupe::gpu::jinja {
namespace {

/// About 300 bytes to 1 KiB of stack each.
constexpr int evaluation_depth_max = 400;

}  // namespace

evaluation_depth::evaluation_depth(guard& g, int& depth) : depth_(depth) {
  if (depth >= evaluation_depth_max)
    g.fail("evaluation nested more than " + std::to_string(evaluation_depth_max) + " deep");
  ++depth_;
}

value* find_name(evaluator::names& known, std::string_view name) {
  // Scopes hold a few names each; a map would cost more for every pass of a loop.
  for (auto& [key, v] : known) {
    if (key == name) return &v;
  }
  return nullptr;
}

void set_name(evaluator::names& known, const std::string& name, const value& v) {
  if (auto* found = find_name(known, name))
    *found = v;
  else
    known.emplace_back(name, v);
}

evaluator::evaluator(guard& g, names globals) : g_(g) {
  const auto add = [&](const char* name, function which) {
    auto out = std::make_shared<callable>();
    out->builtin = which;
    globals.emplace_back(name, callable_ref(std::move(out)));
  };
  // Those of Jinja's own that templates use, and the two that transformers adds.
  add("range", function::range);
  add("namespace", function::make_namespace);
  add("dict", function::make_dict);
  add("raise_exception", function::raise_exception);
  add("strftime_now", function::strftime_now);
  // Two scopes at the bottom: names that a template sets hide the globals and never replace them.
  push_scope(0);
  scopes_.back().known = std::move(globals);
  push_scope(0);
}

evaluator::~evaluator() {
  for (const auto& n : namespaces_) {
    // Moved out first: what an entry holds may hold this namespace again.
    auto entries = std::move(n->entries);
    n->entries.clear();
    entries.clear();
  }
}

void evaluator::push_scope(std::size_t parent) {
  scopes_.push_back({{}, parent, ++serials_});
}

text evaluator::render(const body& statements) {
  text out;
  run(statements, out);
  return out;
}

void evaluator::print(const value& v, text& out) {
  // Checked before it is appended: one print may be as large as the limit itself.
  const auto shown = printed(g_, v);
  if (shown.size() > guard::output_bytes_max - std::min(out.size(), guard::output_bytes_max)) {
    g_.fail("more than " + std::to_string(guard::output_bytes_max) + " bytes of output");
  }
  g_.charge(shown.size());
  out.append(shown);
}

// A break or continue passes through all bodies up to its loop.
evaluator::flow evaluator::run(const body& statements, text& out) {
  const evaluation_depth inside(g_, depth_);
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
    // The template's own bytes are trusted: special tokens in them are read as such.
    case node_kind::data:
      print(n.text, out);
      return flow::done;
    case node_kind::print:
      print(eval(*n.subject), out);
      return flow::done;
    case node_kind::branch:
      return run_branch(n, out);
    case node_kind::loop:
      run_loop(n, eval(*n.subject), 0, here(), out);
      return flow::done;
    case node_kind::block:
      return run(n.inner, out);
    case node_kind::stop_loop:
      return flow::stop_loop;
    case node_kind::next_loop:
      return flow::next_loop;
    case node_kind::assign:
      // Into the innermost scope, so a name that is set in a loop is gone behind it; that is what
      // namespace() is for.
      assign(*n.target, eval(*n.subject));
      return flow::done;
    case node_kind::capture:
    case node_kind::filtered:
      return run_capture(n, out);
    case node_kind::with:
      return run_with(n, out);
    case node_kind::macro:
      // A macro is a name like any other, and may be set again.
      set_name(scopes_.back().known, n.name, function_of(n));
      return flow::done;
    case node_kind::call: {
      const auto caller = function_of(n);
      print(eval_call(*n.subject, &caller), out);
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

/// A set block or a filter block. What was written before a break or continue is lost, as in Jinja.
evaluator::flow evaluator::run_capture(const node& n, text& out) {
  text inner;
  const auto ended = run(n.inner, inner);
  if (ended != flow::done) return ended;
  auto made = make_text(g_, std::move(inner));
  if (n.subject != nullptr) {
    // Blocks may nest: the outer one's text comes back when the inner one is through.
    auto around = std::exchange(captured_, std::move(made));
    made = eval(*n.subject);
    captured_ = std::move(around);
  }
  if (n.kind == node_kind::filtered)
    print(made, out);
  else
    assign(*n.target, made);
  return flow::done;
}

evaluator::flow evaluator::run_with(const node& n, text& out) {
  names given;  // none sees another
  for (const auto& [name, subject] : n.parameters) given.emplace_back(name, eval(*subject));
  push_scope(here());
  for (const auto& [name, v] : given) set_name(scopes_.back().known, name, v);
  const auto ended = run(n.inner, out);
  scopes_.pop_back();
  return ended;
}

/// The items that the loop's own `if` keeps; the loop's scope is the innermost.
list_ref evaluator::chosen(const node& n, list_ref items) {
  if (n.condition == nullptr) return items;
  std::vector<value> kept;
  for (const auto& v : items->items) {
    g_.step();
    scopes_.back().known.clear();
    assign(*n.target, v);
    if (truthy(eval(*n.condition))) kept.push_back(v);
  }
  return std::get<list_ref>(make_list(g_, std::move(kept)));
}

void evaluator::run_loop(const node& n, const value& over, int depth0, std::size_t parent,
                         text& out) {
  const auto all = elements(g_, over);
  loop_state state;
  state.depth0 = depth0;
  state.recursive = n.recursive ? &n : nullptr;
  // Where a recursive call of this loop will look up names.
  state.home = {parent, scopes_[parent].serial};
  push_scope(parent);
  // Filtered before the first pass: loop.length and loop.last count what is left, as in Jinja.
  state.items = chosen(n, all);
  for (std::size_t i = 0; i < state.items->items.size(); ++i) {
    g_.step();
    // Each pass has a scope of its own in Jinja; clearing the one there is the same and allocates
    // nothing.
    scopes_.back().known.clear();
    state.index0 = i;
    // A copy of its own for each pass: a template may keep `loop` and look at it later.
    set_name(scopes_.back().known, "loop", std::make_shared<const loop_state>(state));
    assign(*n.target, state.items->items[i]);
    // `continue` has ended the pass already.
    if (run(n.inner, out) == flow::stop_loop) break;
  }
  scopes_.back().known.clear();
  // Of a loop whose own `if` keeps nothing too, as in Jinja.
  if (state.items->items.empty()) run(n.otherwise, out);
  scopes_.pop_back();
}

// A name, an attribute of a namespace, or several of them for the elements of a sequence.
void evaluator::assign(const expr& target, const value& v) {
  g_.at = target.at;
  if (target.kind == expr_kind::name) return set_name(scopes_.back().known, target.name, v);
  if (target.kind == expr_kind::attribute) {
    const auto owner = eval(*target.items[0]);
    const auto* space = std::get_if<namespace_ref>(&owner);
    if (space == nullptr)
      g_.fail(std::string("cannot set an attribute of ") + kind_of(owner) +
              ", only of a namespace");
    // 64: what the map's node takes beside key and value, about.
    g_.charge(target.name.size() + sizeof(value) + 64);
    (*space)->entries.insert_or_assign(target.name, v);
    return;
  }
  const auto parts = elements(g_, v);
  if (parts->items.size() != target.items.size()) {
    g_.fail("cannot unpack " + std::to_string(parts->items.size()) + " values into " +
            std::to_string(target.items.size()) + " names");
  }
  for (std::size_t i = 0; i < target.items.size(); ++i) assign(*target.items[i], parts->items[i]);
}

}  // namespace troupe::gpu::jinja
