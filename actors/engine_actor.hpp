// CAF entry point for programs that embed the runtime: a client of core::generation_engine like any
// other, that speaks typed messages. One per runtime, spawned when it is first asked for. Keeps
// each request's sink, monitors its reader, holds the credit of one delta, encodes and decodes text
// between other messages; decides nothing and touches no lease.
#pragma once
#include <chrono>
#include <memory>

#include "actors/api/observer.hpp"
#include "actors/protocol/engine.hpp"
#include "gpu/make_backend.hpp"

namespace troupe {

/// What the host sees of it, the events of its own sinks, and its word to itself between slices.
using engine_shell = protocol::engine_actor::extend<caf::reacts_to<protocol::sink_event>,
                                                    caf::reacts_to<protocol::encode_on>>;

/// `engine` and `watcher` must outlive the actor. A reader that keeps one text longer than
/// `reader_limit` ends as slow_reader.
engine_shell::behavior_type engine_actor(engine_shell::pointer self,
                                         core::generation_engine* engine,
                                         const std::shared_ptr<const gpu::loaded_model>& model,
                                         core::observer* watcher,
                                         std::chrono::milliseconds reader_limit);

}  // namespace troupe
