// Work of a connection on another thread than its own, and its answer back on its strand. Holds the
// connection meanwhile and lets it go on its strand alone, where its socket and timers are: its
// last holder may be this one. Never decides whether somebody still waits.
#pragma once
#include <boost/asio/post.hpp>
#include <memory>
#include <utility>

#include "net/server/bridge.hpp"
#include "net/server/worker_thread.hpp"

namespace troupe::net {

/// work() on the pool, then then(what it answered) on the owner's strand, unless it answered
/// nothing (work gives an optional). Neither holds the owner itself.
template <class Work, class Then>
void run_aside(worker_thread& pool, std::shared_ptr<event_receiver> owner, Work work, Then then) {
  boost::asio::post(
      pool, [owner = std::move(owner), work = std::move(work), then = std::move(then)]() mutable {
        auto answer = work();
        const auto strand = owner->executor();
        boost::asio::post(strand, [owner = std::move(owner), then = std::move(then),
                                   answer = std::move(answer)]() mutable {
          if (answer) then(std::move(*answer));
        });
      });
}

}  // namespace troupe::net
