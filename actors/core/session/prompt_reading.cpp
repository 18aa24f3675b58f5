#include "actors/core/session/prompt_reading.hpp"

#include <utility>

#include "actors/core/prompt_length.hpp"

namespace troupe::core {

namespace {

/// As long as a slice, for each session that reads: together they take about one thread.
constexpr std::uint64_t slice_pause_us = 1'000;
/// How often a session without a place asks for one. A queue of waiters would wake them sooner, but
/// a prompt this long takes far more than 20 ms anyway.
constexpr std::uint64_t place_pause_us = 20'000;

}  // namespace

reading_step prompt_reading::on_begin(std::size_t at_least_tokens, time_us now) {
  if (state_ != state::received) return reading::nothing{};
  state_ = state::tokenizing;
  begun_at_ = now;
  due_ = deadlines_from(now, limits_.own, limits_.configured);
  if (too_long(at_least_tokens)) {
    state_ = state::left;
    return refuse_long(at_least_tokens);
  }
  // A prompt of one slice, which nearly all are, needs neither a place nor a timer.
  return reading::read_slice{slice_units};
}

reading_step prompt_reading::on_slice(const slice_report& report, reading_places& places,
                                      time_us now) {
  if (state_ != state::tokenizing) return reading::nothing{};
  if (report.complete) {
    close(places);
    return reading::submit{};
  }
  if (too_long(report.at_least_tokens)) {
    close(places);
    return refuse_long(report.at_least_tokens);
  }
  if (const auto over = overdue(now)) return on_cancel(*over, places);
  return reading::wait{take_place(places) ? slice_pause_us * places.taken : place_pause_us};
}

reading_step prompt_reading::on_turn(reading_places& places, time_us now) {
  if (state_ != state::tokenizing) return reading::nothing{};
  if (const auto over = overdue(now)) return on_cancel(*over, places);
  if (!take_place(places)) return reading::wait{place_pause_us};
  return reading::read_slice{slice_units};
}

reading_step prompt_reading::on_failed(refusal why, std::string message, reading_places& places) {
  if (state_ == state::left) return reading::nothing{};
  close(places);
  return reading::refuse{why, std::move(message)};
}

reading_step prompt_reading::on_cancel(end_reason why, reading_places& places) {
  if (state_ == state::left) return reading::nothing{};
  close(places);
  return reading::end{why};
}

void prompt_reading::close(reading_places& places) {
  state_ = state::left;
  if (std::exchange(has_place_, false)) --places.taken;
}

bool prompt_reading::take_place(reading_places& places) {
  if (has_place_) return true;
  if (places.taken >= places.total) return false;
  ++places.taken;
  return has_place_ = true;
}

bool prompt_reading::too_long(std::size_t at_least_tokens) const {
  return limits_.context > 0 &&
         !prompt_fits(at_least_tokens, limits_.wants_answer, limits_.context);
}

reading_step prompt_reading::refuse_long(std::size_t at_least_tokens) const {
  return reading::refuse{refusal::context_length,
                         prompt_too_long(at_least_tokens, limits_.context, false)};
}

// The limits never change, and the moment it began is in the deadlines; behind `left` nothing
// counts.
void prompt_reading::add_to(state_hash& h) const {
  h.add(state_);
  if (state_ != state::tokenizing) return;
  h.add(has_place_);
  due_.add_to(h);
}

}  // namespace troupe::core
