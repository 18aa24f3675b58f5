// Renders a parsed template. One evaluator per rendering; every loop, call and byte is counted by
// the guard.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/model/jinja/functions.hpp"
#include "gpu/model/jinja/parser.hpp"

namespace troupe::gpu::jinja {

class evaluator {
 public:
  using names = std::vector<std::pair<std::string, value>>;

  /// `globals` are what the template finds besides its own names.
  evaluator(guard& g, names globals);
  ~evaluator();
  evaluator(const evaluator&) = delete;
  evaluator& operator=(const evaluator&) = delete;

  text render(const body& statements);

 private:
  /// How a run of statements ended.
  enum class flow { done, stop_loop, next_loop };
  struct scope {
    names known;
    std::size_t parent = 0;    ///< where a name is looked for next; scope 0 is the last
    std::uint64_t serial = 0;  ///< no two scopes of a rendering have the same
  };

  flow run(const body&, text& out);
  flow run_one(const node&, text& out);
  flow run_branch(const node&, text& out);
  flow run_capture(const node&, text& out);
  flow run_with(const node&, text& out);
  void run_loop(const node&, const value& over, int depth0, std::size_t parent, text& out);
  list_ref chosen(const node&, list_ref items);
  void assign(const expr& target, const value&);
  void print(const value&, text& out);

  value eval(const expr&);
  value eval_kind(const expr&);
  value eval_name(const expr&);
  value eval_list(const expr&);
  value eval_dict(const expr&);
  value eval_unary(const expr&);
  value eval_binary(const expr&);
  value eval_compare(const expr&);
  value eval_concat(const expr&);
  value eval_slice(const expr&);

  /// `caller`: what a call block hands over, or nullptr.
  value eval_call(const expr&, const value* caller);
  value call(const value& target, const arguments&);
  value call_macro(const callable&, const arguments&);
  value call_loop(const loop_state&, const arguments&);
  value function_of(const node&);
  arguments eval_arguments(const expr&);

  void push_scope(std::size_t parent);
  std::size_t here() const { return scopes_.size() - 1; }
  home_scope home() const { return {here(), scopes_.back().serial}; }
  void check_alive(const home_scope&, const std::string& what) const;

  guard& g_;
  std::vector<scope> scopes_;  ///< 0: globals, 1: the template's own names, then loops and macros
  std::uint64_t serials_ = 0;
  value captured_;                         ///< of the filter or set block that ends
  int depth_ = 0;                          ///< of eval, run and macro calls inside each other
  std::vector<namespace_ref> namespaces_;  ///< emptied at the end, so that no cycle survives
};

/// Counts how deep the evaluator is inside itself. Macros inside macros multiply the depth of their
/// bodies, so this is apart from the depth of the source.
class evaluation_depth {
 public:
  evaluation_depth(guard& g, int& depth);
  ~evaluation_depth() { --depth_; }
  evaluation_depth(const evaluation_depth&) = delete;
  evaluation_depth& operator=(const evaluation_depth&) = delete;

 private:
  int& depth_;
};

/// The value of `name`, or nullptr.
value* find_name(evaluator::names&, std::string_view name);
void set_name(evaluator::names&, const std::string& name, const value&);

}  // namespace troupe::gpu::jinja
