// One request as its client sees it: text stops, hold-back, coalescing with a credit of one delta, the slow reader's
// limit, late tokens dropped, one terminal event. Pure: text comes in decoded; no tokenizer, clock or CAF.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/core/events.hpp"
#include "actors/core/stop_matcher.hpp"

namespace troupe::core {

struct session_options {
  request_id request;
  std::vector<std::string> stop;
  bool include_stop_in_output = false;
  bool want_logprobs = false;
  std::uint64_t outbound_bytes_max = 1 << 20;  ///< undelivered text and pieces beyond this: slow_reader
};

/// A token as the shell hands it over: `text` is what the detokenizer could finish with it (may be empty).
struct decoded_token {
  std::string text;
  token_piece piece;
  bool is_end = false;     ///< counted, not text
};

namespace session_effect {
struct accepted { std::uint32_t prompt_tokens = 0; };
struct deliver { generation_delta delta; };
struct finish { generation_end end; };           ///< to the client; once, last
struct cancel_request { cancel message; };       ///< to the scheduler
struct quit {};                                  ///< the scheduler has ended it: the actor may go
}  // namespace session_effect
using session_effects_item = std::variant<session_effect::accepted, session_effect::deliver,
                                          session_effect::finish, session_effect::cancel_request,
                                          session_effect::quit>;
using session_effects = std::vector<session_effects_item>;

class session_machine {
 public:
  explicit session_machine(session_options);

  void on(const admitted&, session_effects&);
  void on(const refused&, session_effects&);
  /// The echoed prompt (a delta with prompt = true), before any token.
  void on_prompt(std::string text, std::vector<token_piece> pieces, session_effects&);
  void on_token(decoded_token, time_us now, session_effects&);
  /// `tail`: what the detokenizer still held.
  void on(const ended&, std::string tail, session_effects&);
  void on_delivered(session_effects&);
  /// Socket closed, cancel by id, sink expired: passed on to the scheduler, once.
  void on_cancel(end_reason why, time_us seen_at, session_effects&);
  /// The scheduler died.
  void on_engine_down(session_effects&);

  bool finished() const;   ///< the client has its terminal event
  bool operator==(const session_machine&) const = default;
  // The private part is the implementer's.
};

}  // namespace troupe::core
