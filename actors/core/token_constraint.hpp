// What an answer's tokens must obey, beyond the sampling parameters: a state that advances with
// each sampled token and says which may come next. The session compiles a request's wishes once
// (constraint_rules); the request carries the constraint, the scheduler advances it, and each
// step's plan takes its mask to the sampler. The state is small and depends on the answer alone, so
// it is the same alone, in a batch and behind a preemption.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "actors/core/state_hash.hpp"
#include "config/token_mask.hpp"

namespace troupe::core {

/// The part that never changes, shared by all copies of a constraint. Another kind of constraint (a
/// grammar) is another subclass.
class constraint_rules {
 public:
  /// What of the answer matters: only the rules know what it means. Copied with the request and
  /// compared by the explorer, so it must stay small.
  using state = std::vector<token_id>;

  virtual ~constraint_rules() = default;
  /// The state behind one token more.
  virtual void advance(state&, token_id) const = 0;
  virtual token_mask mask(const state&) const = 0;
};

class token_constraint {
 public:
  token_constraint() = default;  ///< allows everything
  explicit token_constraint(std::shared_ptr<const constraint_rules> rules)
      : rules_(std::move(rules)) {}

  void advance(token_id token) {
    if (rules_) rules_->advance(state_, token);
  }
  token_mask mask() const { return rules_ ? rules_->mask(state_) : token_mask{}; }
  /// Equal rules are the same object: they are compiled once for a request.
  bool operator==(const token_constraint&) const = default;
  void add_to(state_hash& h) const { h.add(state_); }

 private:
  std::shared_ptr<const constraint_rules> rules_;
  constraint_rules::state state_;
};

/// `allowed_token_ids` and `bad_words`, as vLLM has them.
struct word_rules {
  std::vector<token_id> allowed;                 ///< empty: all
  std::vector<std::vector<token_id>> forbidden;  ///< sequences; an empty one forbids nothing
};
/// No constraint when there are no rules. Tokens are those of a vocabulary, checked before.
token_constraint compile(word_rules);

}  // namespace troupe::core
