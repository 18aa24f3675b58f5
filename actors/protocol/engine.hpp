// How a host's actors talk to the engine: what its door understands, and what it tells the reader
// of an answer. The only messages that leave the runtime's own actors. See
// actors/embedding/caf_system.hpp.
#pragma once
#include <variant>

#include "actors/api/generation.hpp"
#include "actors/protocol/type_ids.hpp"

namespace troupe::protocol {

// ---- engine -> reader. `tag` is the host's own name of the request, handed back; `id` is the
// engine's.

/// In the queue. A request that is refused ends without it.
struct request_accepted {
  std::uint64_t tag = 0;
  core::request_id id;
  std::uint32_t prompt_tokens = 0;
};
/// One at a time: the next is only sent when the reader has handled this one; what comes meanwhile
/// is joined to it. A reader that answers later (a response promise) slows its request: the answer
/// is the credit. Beyond the outbound limit the request pauses; an answer later than
/// client-send-timeout, or a pause of reader-stall-timeout, ends it as slow_reader.
struct text_arrived {
  std::uint64_t tag = 0;
  core::request_id id;
  core::generation_delta delta;
};
/// Once, always, last; `end.last` is text not delivered before.
struct request_ended {
  std::uint64_t tag = 0;
  core::request_id id;
  core::generation_end end;
};

using reader_actor = caf::typed_actor<caf::reacts_to<request_accepted>,
                                      caf::reacts_to<text_arrived>, caf::reacts_to<request_ended>>;

// ---- host -> engine

/// Answered by messages to `reader`, whose death ends the request as client_gone.
struct submit_request {
  std::uint64_t tag = 0;
  core::generation_request request;
  reader_actor reader;
};
/// Ends as cancelled; unknown, late and repeated ones are normal.
struct cancel_request {
  core::request_id id;
};

using engine_actor =
    caf::typed_actor<caf::reacts_to<submit_request>, caf::reacts_to<cancel_request>>;

// ---- from the sinks of the engine actor's requests, to itself

/// `key` counts the requests of one engine actor: a sink can speak before the engine has named its
/// request.
struct sink_event {
  std::uint64_t key = 0;
  std::variant<std::uint32_t, core::generation_delta, core::generation_end>
      what;  ///< accepted with prompt tokens; delta; end
};

}  // namespace troupe::protocol
