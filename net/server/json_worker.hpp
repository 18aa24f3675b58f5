// A worker thread for what would hold up other connections: reading large JSON, tokenizing long
// texts. The result comes back on the connection's strand. The work holds the connection meanwhile
// and releases it on its strand alone, where its socket and timers are destroyed: this may be its
// last owner. Never decides whether the result is still wanted.
#pragma once
#include <boost/asio/post.hpp>
#include <memory>
#include <utility>

#include "net/server/bridge.hpp"
#include "net/server/worker_thread.hpp"

namespace troupe::net {

/// work() on `worker`, then then(*result) on the owner's strand, or nothing when the result
/// is empty (work returns an optional). Neither callable holds the owner itself.
template <class Work, class Then>
void run_on_worker(worker_thread& worker, std::shared_ptr<event_receiver> owner, Work work,
                   Then then) {
  boost::asio::post(
      worker, [owner = std::move(owner), work = std::move(work), then = std::move(then)]() mutable {
        auto answer = work();
        const auto strand = owner->executor();
        boost::asio::post(strand, [owner = std::move(owner), then = std::move(then),
                                   answer = std::move(answer)]() mutable {
          if (answer) then(std::move(*answer));
        });
      });
}

}  // namespace troupe::net
