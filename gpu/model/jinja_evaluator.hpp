// Renders a parsed template. One evaluator per rendering; every loop, call and byte is counted by
// the guard.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/model/jinja_functions.hpp"
#include "gpu/model/jinja_parser.hpp"

namespace troupe::gpu::jinja {

class evaluator {
 public:
  using scope = std::vector<std::pair<std::string, value>>;

  /// `globals` are what the template finds besides its own names.
  evaluator(guard& g, scope globals);
  ~evaluator();
  evaluator(const evaluator&) = delete;
  evaluator& operator=(const evaluator&) = delete;

  text render(const body& statements);

 private:
  /// How a run of statements ended.
  enum class flow { done, stop_loop, next_loop };

  flow run(const body&, text& out);
  flow run_one(const node&, text& out);
  flow run_branch(const node&, text& out);
  flow run_loop(const node&, text& out);
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
  value eval_call(const expr&);
  value call_macro(const node& macro, const arguments&);
  arguments eval_arguments(const expr&);

  guard& g_;
  std::vector<scope> scopes_;  ///< 0: globals, 1: the template's own names, then loops and macros
  std::size_t frame_ =
      1;           ///< names are looked up from the innermost scope to this one, then 1 and 0
  int depth_ = 0;  ///< of eval, run and macro calls inside each other
  std::vector<namespace_ref> namespaces_;  ///< emptied at the end, so that no cycle survives
};

}  // namespace troupe::gpu::jinja
