// From an engine thread to a connection's strand: a sink that posts. It holds the connection
// weakly, so events that come after the connection has closed are dropped. The connection owns its
// sinks; dropping a sink ends its generation. Never touches a socket.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <memory>
#include <utility>
#include <variant>

#include "actors/api/generation.hpp"

namespace troupe::net {

struct accepted_event {
  std::uint32_t prompt_tokens = 0;
};
using generation_event = std::variant<accepted_event, core::generation_delta, core::generation_end>;

/// A connection as its generations see it. on_event runs on executor()'s strand.
class event_receiver {
 public:
  virtual ~event_receiver() = default;
  virtual boost::asio::any_io_executor executor() = 0;
  /// `exchange`: which of the connection's exchanges, counted from 1.
  virtual void on_event(std::uint64_t exchange, std::size_t choice, generation_event) = 0;
};

class posting_sink final : public core::generation_sink {
 public:
  posting_sink(std::weak_ptr<event_receiver> to, std::uint64_t exchange, std::size_t choice)
      : to_{std::move(to)}, exchange_{exchange}, choice_{choice} {}

  void accepted(std::uint32_t prompt_tokens) override { post(accepted_event{prompt_tokens}); }
  void delta(core::generation_delta d) override { post(std::move(d)); }
  void end(core::generation_end e) override { post(std::move(e)); }

 private:
  void post(generation_event event) {
    const auto strong = to_.lock();
    if (!strong) return;
    boost::asio::post(strong->executor(), [to = to_, exchange = exchange_, choice = choice_,
                                           event = std::move(event)]() mutable {
      if (const auto receiver = to.lock()) receiver->on_event(exchange, choice, std::move(event));
    });
  }

  std::weak_ptr<event_receiver> to_;
  std::uint64_t exchange_;
  std::size_t choice_;
};

}  // namespace troupe::net
