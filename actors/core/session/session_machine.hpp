// One request as its client sees it: stops by text and repetition, text held back for a possible
// stop, pieces joined while one is outstanding, the slow reader's limit, late tokens dropped, one
// terminal event. Pure: text comes in decoded; no tokenizer, clock or CAF.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/core/events.hpp"
#include "actors/core/session/stop_matcher.hpp"
#include "actors/core/state_hash.hpp"

namespace troupe::core {

struct session_options {
  request_id request;
  stop_rules stop;
  std::optional<repetition_stop> repetition;
  std::uint32_t min_tokens = 0;  ///< no stop is completed by the first so many tokens
  bool want_logprobs = false;
  std::uint64_t outbound_bytes_max =
      256 << 10;  ///< text and pieces waiting for the reader beyond this: it has stalled
};

/// A token as the shell hands it over: `text` is what the detokenizer could finish with it (may be
/// empty).
struct decoded_token {
  std::string text;
  token_piece piece;
  bool is_end = false;  ///< counted, not text
  std::string tail;  ///< what the detokenizer would add if this were the last token; asked for with
                     ///< `repetition`
  std::uint32_t cached_tokens = 0;  ///< of the prompt; the first token's count stands until `ended`
};

namespace session_effect {
struct accepted {
  std::uint32_t prompt_tokens = 0;
};
struct deliver {
  generation_delta delta;
};
struct finish {
  generation_end end;
};  ///< to the client; once, last
struct cancel_request {
  cancel message;
};                  ///< to the scheduler
struct stalled {};  ///< to the scheduler: compute nothing more for now
struct resumed {};  ///< to the scheduler
struct quit {};     ///< the scheduler has ended it: the actor may go
}  // namespace session_effect
using session_effects_item =
    std::variant<session_effect::accepted, session_effect::deliver, session_effect::finish,
                 session_effect::cancel_request, session_effect::stalled, session_effect::resumed,
                 session_effect::quit>;
using session_effects = std::vector<session_effects_item>;

class session_machine {
 public:
  explicit session_machine(session_options);

  /// The request ended while its prompt was read (core/session/prompt_reading): the scheduler never
  /// heard of it, so no `ended` follows.
  void on_unsubmitted_end(end_reason why, session_effects&);
  void on(const admitted&, session_effects&);
  void on(const refused&, session_effects&);
  /// The echoed prompt (a delta with prompt = true), before any token.
  void on_prompt(const std::string& text, std::vector<token_piece> pieces, session_effects&);
  void on_token(decoded_token, time_us now, session_effects&);
  /// `tail`: what the detokenizer still held.
  void on(const ended&, std::string tail, session_effects&);
  void on_delivered(session_effects&);
  /// Socket closed, cancel by id, sink expired: passed on to the scheduler, once.
  void on_cancel(end_reason why, time_us seen_at, session_effects&);
  /// The scheduler died.
  void on_engine_down(session_effects&);

  bool finished() const;      ///< the client has its terminal event
  token_usage usage() const;  ///< so far
  /// Everything that decides what it will do, except its options; see state_hash.
  void add_to(state_hash&) const;

 private:
  // A token's log-probabilities go out together with its text: once `shown_` has reached `ready`,
  // and never when its text starts after a stop. Offsets count bytes of generated text.
  struct waiting_piece {
    token_piece piece;
    std::uint64_t start = 0;
    std::uint64_t ready = 0;
    bool operator==(const waiting_piece&) const = default;
  };

  void show(const std::string& text, std::uint64_t cut);
  void release_pieces(std::uint64_t ready_up_to, std::uint64_t start_below);
  void deliver_if_possible(session_effects&);
  void ask_cancel(end_reason why, time_us seen_at, session_effects&);
  void conclude_stop(generation_end&, const std::string& text);
  void conclude_text(generation_end&, const std::string& tail);
  bool repeats(token_id);
  void finish(generation_end, session_effects&);
  void quit(session_effects&);
  void watch_reader(session_effects&);

  session_options options_;
  stop_matcher matcher_;
  std::uint32_t prompt_tokens_ = 0;
  std::uint32_t cached_tokens_ = 0;
  std::uint32_t completion_tokens_ = 0;
  std::vector<token_id> recent_;  // the last `ngram` tokens of the answer, a ring
  std::uint32_t recent_at_ = 0;   // where in recent_ the next token goes
  std::uint64_t repeated_ = 0;    // length of the run of tokens equal to the one `ngram` before
  std::uint64_t fed_ = 0;         // bytes of text given to the matcher
  std::uint64_t shown_ = 0;       // bytes of it that the matcher released
  std::vector<waiting_piece> pieces_;
  generation_delta prompt_, pending_;    // undelivered
  std::uint64_t pending_bytes_ = 0;      // cost of prompt_ and pending_
  bool outstanding_ = false;             // a delta is delivered and not yet confirmed
  bool stalled_ = false;                 // reported to the scheduler
  std::optional<end_reason> cancelled_;  // passed on to the scheduler
  bool gone_ = false;                    // the client left: nothing is delivered any more
  bool finished_ = false;
  bool quit_ = false;
};

}  // namespace troupe::core
