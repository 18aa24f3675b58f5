// The one CAF type-id block. The messages between the runtime's own actors are the plain values of
// actors/core/events.hpp; they never leave the process, so they are registered without inspectors
// ("unsafe" is CAF's word for that). Those of protocol/engine.hpp have inspectors and may.
#pragma once
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>
#include <functional>

#include "actors/api/kv_audit.hpp"
#include "actors/core/events.hpp"

namespace troupe::protocol {

/// Runtime to a new session, its first message: read the prompt and submit it.
struct begin {};
/// A session to itself, between two slices of a long prompt: other sessions had their turn, read
/// on.
struct read_on {};
/// Sink to session: the last delta is written, so the next may be sent. At most one is outstanding.
struct delivered {
  core::request_id request;
};

/// For the audit: scheduler, allocator and mover call back with their part. The scheduler passes it
/// on behind all it has sent, so the parts fit together.
struct kv_inquiry {
  std::function<void(core::kv_part)> answer;
};
/// An audit found leases that the scheduler does not know; their blocks are quarantined.
struct leaked {
  std::vector<core::lease_id> leases;
  std::uint32_t blocks = 0;
};
/// Delays the next step by that much: a device that hangs, for tests of the real program.
struct freeze {
  std::uint32_t ms = 0;
};

/// Scheduler to session: the first step that names the request is planned, prefill begins.
struct started {
  core::request_id request;
};

struct scheduler_neighbours;
struct request_accepted;
struct text_arrived;
struct request_ended;
struct submit_request;
struct cancel_request;
struct encode_prompt;
struct prompt_encoded;
struct decode_tokens;
struct tokens_decoded;
struct sink_event;
struct encode_on;

/// Declared here because a typed handle travels in a message. Each line: meaning, and who sends it.
using session_actor = caf::typed_actor<
    caf::reacts_to<begin>,             // runtime: tokenize and submit
    caf::reacts_to<read_on>,           // itself: the next slice of a long prompt
    caf::reacts_to<core::admitted>,    // scheduler: in the queue
    caf::reacts_to<core::refused>,     // scheduler: terminal
    caf::reacts_to<started>,           // scheduler: prefill begins
    caf::reacts_to<core::tokens_out>,  // scheduler: scores of the prompt, one sampled token
    caf::reacts_to<core::ended>,       // scheduler: terminal, blocks are on their way back
    caf::reacts_to<delivered>,         // sink: send the next delta
    caf::reacts_to<core::cancel>>;     // connection or API: end this request

}  // namespace troupe::protocol

// A host's own block usually begins at caf::first_custom_type_id (200); ours is far above it. A
// host that uses these numbers too builds Troupe with another first one (-DTROUPE_FIRST_TYPE_ID=N);
// the package hands N on.
#ifndef TROUPE_FIRST_TYPE_ID
#define TROUPE_FIRST_TYPE_ID 40000
#endif
static_assert(TROUPE_FIRST_TYPE_ID >= caf::first_custom_type_id && TROUPE_FIRST_TYPE_ID <= 65000,
              "TROUPE_FIRST_TYPE_ID: 200 (caf::first_custom_type_id) to 65000");

CAF_BEGIN_TYPE_ID_BLOCK(troupe, TROUPE_FIRST_TYPE_ID)
CAF_ADD_TYPE_ID(troupe, (troupe::core::submit))
CAF_ADD_TYPE_ID(troupe, (troupe::core::cancel))
CAF_ADD_TYPE_ID(troupe, (troupe::core::reader_stalled))
CAF_ADD_TYPE_ID(troupe, (troupe::core::reader_resumed))
CAF_ADD_TYPE_ID(troupe, (troupe::core::admitted))
CAF_ADD_TYPE_ID(troupe, (troupe::core::refused))
CAF_ADD_TYPE_ID(troupe, (troupe::core::tokens_out))
CAF_ADD_TYPE_ID(troupe, (troupe::core::ended))
CAF_ADD_TYPE_ID(troupe, (troupe::core::reserve))
CAF_ADD_TYPE_ID(troupe, (troupe::core::release))
CAF_ADD_TYPE_ID(troupe, (troupe::core::audit))
CAF_ADD_TYPE_ID(troupe, (troupe::core::granted))
CAF_ADD_TYPE_ID(troupe, (troupe::core::denied))
CAF_ADD_TYPE_ID(troupe, (troupe::core::released))
CAF_ADD_TYPE_ID(troupe, (troupe::core::step_plan))
CAF_ADD_TYPE_ID(troupe, (troupe::core::step_done))
CAF_ADD_TYPE_ID(troupe, (troupe::core::step_failed))
CAF_ADD_TYPE_ID(troupe, (troupe::core::publish))
CAF_ADD_TYPE_ID(troupe, (troupe::core::move_out))
CAF_ADD_TYPE_ID(troupe, (troupe::core::move_in))
CAF_ADD_TYPE_ID(troupe, (troupe::core::drop_parked))
CAF_ADD_TYPE_ID(troupe, (troupe::core::moved))
CAF_ADD_TYPE_ID(troupe, (troupe::core::tick))
CAF_ADD_TYPE_ID(troupe, (troupe::core::drain))
CAF_ADD_TYPE_ID(troupe, (troupe::core::stop))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::begin))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::delivered))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::started))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::kv_inquiry))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::leaked))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::freeze))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::scheduler_neighbours))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::session_actor))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::request_accepted))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::text_arrived))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::request_ended))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::submit_request))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::cancel_request))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::sink_event))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::read_on))
CAF_ADD_TYPE_ID(troupe, (troupe::core::fork_lease))
CAF_ADD_TYPE_ID(troupe, (troupe::core::drop_source))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::encode_prompt))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::prompt_encoded))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::decode_tokens))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::tokens_decoded))
CAF_ADD_TYPE_ID(troupe, (troupe::protocol::encode_on))
CAF_ADD_TYPE_ID(troupe, (troupe::core::trim))
CAF_END_TYPE_ID_BLOCK(troupe)

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::submit)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::cancel)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::reader_stalled)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::reader_resumed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::admitted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::refused)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::tokens_out)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::ended)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::reserve)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::fork_lease)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::drop_source)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::trim)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::release)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::audit)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::granted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::denied)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::released)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::step_plan)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::step_done)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::step_failed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::publish)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::move_out)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::move_in)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::drop_parked)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::moved)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::drain)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::core::stop)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocol::begin)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocol::delivered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocol::started)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocol::kv_inquiry)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocol::leaked)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocol::freeze)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocol::scheduler_neighbours)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocol::sink_event)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocol::encode_on)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::protocol::read_on)
