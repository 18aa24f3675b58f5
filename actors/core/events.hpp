// What the machines tell each other, as plain values: verbs ask, past participles tell. `actors/protocol` gives them
// CAF type ids; nothing here knows that. Direction and meaning of each: actors/README.md.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/core/generation.hpp"
#include "actors/core/ids.hpp"
#include "actors/core/outcome.hpp"
#include "config/sampling_params.hpp"

namespace troupe::core {

// ---- session -> scheduler

struct submit {
  request_id request;
  std::vector<token_id> prompt;
  sampling_params sampling;
  std::optional<std::uint32_t> max_tokens;   ///< clipped to the room left
  std::uint32_t min_tokens = 0;
  std::vector<token_id> stop_token_ids;
  bool ignore_eos = false;
  std::int32_t top_logprobs = -1;
  bool score_prompt = false;                 ///< echo with log-probabilities
  std::int32_t priority = 0;
  deadlines_ms deadlines;
  bool operator==(const submit&) const = default;
};

struct cancel {
  request_id request;
  end_reason why = end_reason::cancelled;
  time_us seen_at = 0;                       ///< when the cause was seen
};

// ---- scheduler -> session

struct admitted { request_id request; std::uint32_t prompt_tokens = 0; };
struct refused { request_id request; refusal why = refusal::none; std::string message; };
struct tokens_out {
  request_id request;
  std::vector<scored_token> prompt_scores;   ///< of the chunk just done, in order
  std::optional<scored_token> token;
  bool is_end = false;                       ///< `token` is an end or stop token: counted, not text
};
struct ended {
  request_id request;
  end_reason why = end_reason::end_token;
  std::optional<token_id> stop_token;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint32_t preemptions = 0;
  life_phase phase = life_phase::done;       ///< where the request was when the reason arose
  request_times times;
  std::string message;                       ///< for failures
};

// ---- scheduler <-> allocator (one FIFO path, so a release always follows its reserve)

struct reserve { lease_id lease; std::uint32_t count = 0; std::uint32_t keep_free = 0; };
struct release { lease_id lease; end_reason why = end_reason::end_token; bool preempted = false; };
/// All leases the scheduler knows, sorted: what the allocator holds beyond these has leaked.
struct audit { std::vector<lease_id> live; };
struct granted { lease_id lease; std::vector<block_id> blocks; };
struct denied { lease_id lease; };
struct released { lease_id lease; std::uint32_t blocks = 0; };

// ---- scheduler <-> executor

struct plan_item {
  request_id request;
  std::uint32_t start = 0;                   ///< tokens already computed
  std::vector<token_id> tokens;
  std::vector<block_id> blocks;
  bool sample = false;
  sampling_params sampling;
  std::vector<token_id> suppressed;
  std::int32_t top_logprobs = -1;
  std::vector<token_id> score_targets;       ///< empty, or one per token (-1: none)
};
struct step_plan {
  step_id step;
  std::vector<plan_item> items;
};
struct item_result {
  request_id request;
  bool bad_logits = false;
  std::optional<scored_token> sampled;
  std::vector<scored_token> scores;
};
struct step_done {
  step_id step;
  std::vector<item_result> items;            ///< same order as the plan
  std::uint64_t elapsed_us = 0;
};
struct step_failed { step_id step; std::string what; };

// ---- from the runtime to the scheduler

struct tick {};                              ///< look at the deadlines
struct drain {};                             ///< refuse new requests, let the others finish
struct stop { end_reason why = end_reason::shutdown; std::string message; };  ///< end every request

}  // namespace troupe::core
