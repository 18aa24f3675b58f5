// The whole answer as a future, for programs that want no stream and have no actors. A client of
// core::generation_engine. The future owns the request: to drop it before the answer is complete is
// to leave, and the request ends as client_gone.
#pragma once
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "actors/api/generation.hpp"

namespace troupe {

struct answer {
  std::string text;
  std::string echoed;                     ///< the prompt's text, with echo
  std::vector<core::token_piece> tokens;  ///< with log-probabilities; the echoed prompt's first
  core::generation_end end;  ///< reason, usage, times, and the message of an error: nothing throws
};

/// Moves like std::future; get() once. The engine must outlive it, or have ended the request.
class answer_future {
 public:
  answer_future() = default;
  answer_future(answer_future&&) noexcept = default;
  answer_future& operator=(answer_future&&) noexcept;
  /// A request that still runs ends as client_gone.
  ~answer_future();

  bool valid() const { return ready_.valid(); }
  void wait() const { ready_.wait(); }
  template <class Duration>
  std::future_status wait_for(const Duration& at_most) const {
    return ready_.wait_for(at_most);
  }
  template <class Time>
  std::future_status wait_until(const Time& until) const {
    return ready_.wait_until(until);
  }
  /// Waits for the end. std::future_error only when the program runs out of memory.
  answer get();

  /// The request ends as cancelled; get() then gives the text so far.
  void cancel();
  core::request_id id() const;
  /// A plain std::future; from now on the request runs to its end even if nothing waits for it.
  std::future<answer> detach() &&;

 private:
  friend answer_future ask(core::generation_engine&, core::generation_request);
  struct state;
  void leave();
  std::shared_ptr<state> state_;
  std::future<answer> ready_;
};

/// Submits the request. Never blocks; a request that is refused is an answer that ended as refused.
answer_future ask(core::generation_engine&, core::generation_request);

}  // namespace troupe
