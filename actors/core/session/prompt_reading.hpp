// How one prompt becomes tokens while others are served: in slices of bounded work, few readers at
// a time, a pause after each slice, under the request's deadlines, refused as soon as it certainly
// does not fit. Answers each event with the one thing to do next. Knows no tokenizer, clock, timer
// or lock: the session's shell owns those. Reading is apart from the choices of a request: one
// prompt is read once, however many answers it gets.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "actors/core/deadline.hpp"
#include "actors/core/state_hash.hpp"

namespace troupe::core {

/// Of gpu::tokenization's work: some thousand bytes of text, about a millisecond. What an actor may
/// hold its thread for.
inline constexpr std::size_t slice_units = 65'536;

/// So many sessions of a runtime read long prompts at a time. Few, because a giant word takes 30
/// times its bytes of memory while it is merged. Shared by the readers, who take it as a parameter.
struct reading_places {
  std::uint32_t total = 4;
  std::uint32_t taken = 0;
  bool operator==(const reading_places&) const = default;
};

struct reading_limits {
  std::uint32_t context = 0;  ///< tokens; 0: no limit
  bool wants_answer = true;   ///< room for one token more is needed
  deadlines_ms own, configured;
  bool operator==(const reading_limits&) const = default;
};

/// What the tokenizer has come to: the count is certain and never falls.
struct slice_report {
  bool complete = false;
  std::size_t at_least_tokens = 0;
};

namespace reading {
struct nothing {};  ///< the event was late: there is nothing to do
struct read_slice {
  std::size_t units = 0;  ///< of gpu::tokenization's work
};
struct wait {
  std::uint64_t us = 0;  ///< then on_turn()
};
struct submit {};  ///< all tokens are there
struct refuse {
  refusal why = refusal::none;
  std::string message;
};
struct end {
  end_reason why = end_reason::cancelled;
};
}  // namespace reading
using reading_step = std::variant<reading::nothing, reading::read_slice, reading::wait,
                                  reading::submit, reading::refuse, reading::end>;

class prompt_reading {
 public:
  /// The states of a request before its submit; `left`: submitted, refused or ended, and from then
  /// on every event is late.
  enum class state : std::uint8_t { received, tokenizing, left };

  explicit prompt_reading(const reading_limits& limits) : limits_(limits) {}

  /// `at_least_tokens`: what is known before any work, so that a hopeless chat is never rendered.
  reading_step on_begin(std::size_t at_least_tokens, time_us now);
  reading_step on_slice(const slice_report&, reading_places&, time_us now);
  /// The pause is over.
  reading_step on_turn(reading_places&, time_us now);
  /// The prompt can't become tokens: a template that raises, a token id that does not exist.
  reading_step on_failed(refusal why, std::string message, reading_places&);
  /// Cancelled, or the client left. `nothing`: already submitted, so it is the scheduler's to end.
  reading_step on_cancel(end_reason why, reading_places&);
  /// The session dies or its engine has: gives the place back. Any number of times.
  void close(reading_places&);

  state where() const { return state_; }
  bool has_place() const { return has_place_; }
  time_us begun_at() const { return begun_at_; }
  std::optional<end_reason> overdue(time_us now) const { return due_.overdue({}, now); }
  bool operator==(const prompt_reading&) const = default;
  void add_to(state_hash&) const;

 private:
  bool take_place(reading_places&);
  bool too_long(std::size_t at_least_tokens) const;
  reading_step refuse_long(std::size_t at_least_tokens) const;

  reading_limits limits_;
  state state_ = state::received;
  bool has_place_ = false;
  time_us begun_at_ = 0;
  deadline_times due_;
};

}  // namespace troupe::core
