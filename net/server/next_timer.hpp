// One timer for many deadlines: set for the nearest, and again when it is due. Lives on its
// executor; what is called holds the timer's owner.
#pragma once
#include <boost/asio/steady_timer.hpp>
#include <utility>

namespace troupe::net {

class next_timer {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  explicit next_timer(const boost::asio::any_io_executor& executor) : timer_{executor} {}

  /// on_due() at `next`, if nothing is due before that.
  template <class Due>
  void arm(time_point next, Due on_due) {
    if (next >= armed_for_) return;
    armed_for_ = next;
    timer_.expires_at(next);
    timer_.async_wait([this, on_due = std::move(on_due)](const boost::system::error_code& ec) {
      if (ec) return;
      armed_for_ = time_point::max();
      on_due();
    });
  }
  void cancel() { timer_.cancel(); }

 private:
  boost::asio::steady_timer timer_;
  time_point armed_for_ = time_point::max();
};

}  // namespace troupe::net
