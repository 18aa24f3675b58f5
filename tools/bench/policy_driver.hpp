// Runs the same requests through the real runtime under one way of grouping them, and times what
// each saw. The policies that the scheduler does not have (fixed batches, windows, buckets) are
// made here, by when and together with whom a request is submitted. Owns the runtime of its row;
// the device is shared by all rows.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/api/quiet_observer.hpp"
#include "actors/embedding/callback_client.hpp"
#include "actors/runtime.hpp"

namespace troupe {

struct timed_request {
  double at_s = 0;  ///< when it arrives, from the beginning of the run
  std::vector<token_id> prompt;
  std::uint32_t max_tokens = 0;
};

struct grouping {
  double window_ms =
      0;  ///< the first arrival opens it; all that came until its end are submitted together
  std::uint32_t fixed_batch =
      0;  ///< > 0: so many are submitted together, the next when all of them are done
  bool buckets = false;  ///< a fixed batch holds requests of the same length class only
};

/// All in milliseconds, from the arrival (not from the submission).
struct timed_outcome {
  double first_ms = 0, end_ms = 0;
  std::vector<double> gaps_ms;
  std::uint32_t tokens = 0;
};

struct policy_outcome {
  std::vector<timed_outcome> requests;  ///< in the order of the requests
  double elapsed_s = 0;
  double rows_per_step = 0;  ///< sequences in a step, on average
  std::uint64_t tokens = 0;
};

class step_counter final : public quiet_observer {
 public:
  void on_step(const core::step_record&) override;
  void on_violation(const std::string& invariant) override;
  /// Sequences a step since the last call; throws what was violated.
  double take_rows_per_step();

 private:
  std::mutex mutex_;
  std::uint64_t steps_ = 0, rows_ = 0;
  std::string trouble_;
};

class policy_driver {
 public:
  policy_driver(const runtime_config&, std::shared_ptr<const gpu::loaded_model>,
                std::shared_ptr<gpu::backend>);

  /// Throws std::runtime_error when a request does not end at its length.
  policy_outcome run(const std::vector<timed_request>&, const grouping&);

  /// One request by itself: its tokens, greedy.
  std::vector<token_id> answer(std::vector<token_id> prompt, std::uint32_t max_tokens);

 private:
  step_counter steps_;
  runtime engine_;
  callback_client clients_;  // after the engine: it must go first
};

/// The length class of buckets: requests whose answers differ by less than a factor of two share
/// one.
std::uint32_t length_class(const timed_request&);

}  // namespace troupe
