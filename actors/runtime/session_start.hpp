// One request's session and the handles its caller gets, one for each choice. A handle outlives the
// session: what comes through it after the end is dropped.
#pragma once
#include <memory>
#include <vector>

#include "actors/api/generation.hpp"
#include "actors/runtime/runtime_actors.hpp"
#include "actors/session/session_actor.hpp"

namespace troupe {

/// From the caller's thread. When no actor can be born any more, every client gets that as its end,
/// and the handles are those of requests that have ended.
std::vector<std::shared_ptr<core::generation>> start_session(
    runtime_actors& actors, const session_context& context,
    const std::vector<choice_client>& clients);

}  // namespace troupe
