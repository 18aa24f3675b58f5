// The responses that one WebSocket asks for, one after another: which runs, which wait behind it,
// and what goes back as frames. Lives on the connection's strand and writes through its port; never
// touches the socket. Cancels what runs exactly once.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "net/api/responses_events.hpp"
#include "net/http/http_routes.hpp"
#include "net/server/exchange.hpp"

namespace troupe::net {

class ws_lane {
 public:
  /// The connection, as its lane sees it.
  class port {
   public:
    virtual ~port() = default;
    /// `credit`: the serial of the exchange to report to on_frame_sent() once the frame has left;
    /// 0: none.
    virtual void send(std::string frame, std::uint64_t credit) = 0;
    virtual std::uint64_t next_serial() = 0;  ///< of the connection's exchanges, from 1
    virtual std::weak_ptr<event_receiver> receiver() = 0;
    virtual void on_response_begun() = 0;
    virtual void on_response_over() = 0;  ///< the next one has not begun yet
  };

  ws_lane(route_context&, port&);

  /// Runs the request, or lets it wait behind the active one.
  void create(api_request);
  /// Ends the active response, if it is the one named. Others are ignored: an error would reach the
  /// client during its next turn.
  void cancel(const ws_cancel&);
  /// Runs the next waiting response. Called by the connection after on_response_over().
  void run_next();

  void on_event(std::uint64_t serial, std::size_t choice, generation_event);
  void on_frame_sent(std::uint64_t credit);

  /// Nothing that waits will run.
  void drop_waiting() { waiting_.clear(); }
  /// Cancels the active response. The connection is closing, so its last events are not sent.
  void cancel_active(core::end_reason, core::time_us seen_at);
  /// The client is gone: the active response ends here, and nothing more is said about it.
  /// How far it was, if there was one.
  std::optional<core::life_phase> abandon(core::end_reason, core::time_us seen_at);

  bool active() const { return exchange_ != nullptr; }
  bool quiet() const { return !exchange_ && waiting_.empty(); }

 private:
  void run(api_request);
  void on_end(const core::generation_end&);
  void send(std::vector<wire_event>, std::uint64_t credit = 0);

  route_context& context_;
  port& port_;
  std::deque<api_request> waiting_;
  std::unique_ptr<exchange> exchange_;  ///< the active response
  std::optional<responses_events> events_;
  bool begun_ = false;  ///< its first events have been sent
};

}  // namespace troupe::net
