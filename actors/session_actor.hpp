// One request's actor: tokenizes, submits, turns tokens into text, hands deltas to the client's
// sink. Decides nothing beyond its session_machine; never talks to allocator or executor; quits
// when the scheduler has ended the request.
#pragma once
#include <atomic>
#include <memory>

#include "actors/api/observer.hpp"
#include "actors/core/session_machine.hpp"
#include "actors/protocol/scheduler.hpp"
#include "gpu/model/loaded_model.hpp"

namespace troupe {

/// Where a request is, as its handle tells other threads.
using shared_phase = std::shared_ptr<std::atomic<core::life_phase>>;

/// What every session of a runtime shares, but for the last member.
struct session_context {
  std::shared_ptr<const gpu::loaded_model> model;
  protocol::scheduler_actor scheduler;
  core::observer* watcher = nullptr;
  std::uint64_t outbound_bytes_max = 256 << 10;
  bool keep_prefix = false;  ///< for requests that name no on_disconnect
  std::uint32_t model_context =
      0;  ///< tokens; a longer prompt is refused as soon as that is certain; 0: no limit
  core::deadlines_ms deadlines;  ///< defaults, for prompts that take several slices to read
  /// Sessions that read a prompt in slices now.
  std::shared_ptr<std::atomic<std::uint32_t>> reading_now =
      std::make_shared<std::atomic<std::uint32_t>>(0);
  /// One for each session: when its client was first seen to leave, 0 before. The cancel that says
  /// so may still wait in the mailbox when the session finds nobody to deliver to.
  std::shared_ptr<std::atomic<core::time_us>> left_at;
};

protocol::session_actor::behavior_type session_actor(
    protocol::session_actor::pointer self, const session_context& context, core::request_id id,
    const std::shared_ptr<core::generation_request>& request,
    const std::weak_ptr<core::generation_sink>& sink, const shared_phase& phase);

}  // namespace troupe
