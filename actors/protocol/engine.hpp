// What a host's actors send to the engine, and what the engine sends to the reader of an answer:
// the only messages that leave the runtime's own actors. All of them are plain values that CAF's
// serialisers can write and read (actors/protocol/inspect.hpp) and, beside `reader`, hold no
// handle, function or pointer: an engine may live in another process. See
// actors/embedding/caf_system.hpp.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "actors/api/generation.hpp"
#include "actors/protocol/inspect.hpp"
#include "actors/protocol/type_ids.hpp"

namespace troupe::protocol {

// ---- engine -> reader. `tag` is the host's own name of the request, handed back; `id` is the
// engine's.

/// In the queue. A request that is refused ends without it.
struct request_accepted {
  std::uint64_t tag = 0;
  core::request_id id;
  std::uint32_t prompt_tokens = 0;
  bool operator==(const request_accepted&) const = default;
};
/// One at a time: the next is only sent when the reader has handled this one; what comes meanwhile
/// is joined to it. A reader that answers later (a response promise) slows its request: the answer
/// is the credit. Beyond the outbound limit the request pauses; an answer later than
/// client-send-timeout, or a pause of reader-stall-timeout, ends it as slow_reader.
struct text_arrived {
  std::uint64_t tag = 0;
  core::request_id id;
  core::generation_delta delta;
  bool operator==(const text_arrived&) const = default;
};
/// Once, always, last; `end.last` is text not delivered before.
struct request_ended {
  std::uint64_t tag = 0;
  core::request_id id;
  core::generation_end end;
  bool operator==(const request_ended&) const = default;
};

using reader_actor = caf::typed_actor<caf::reacts_to<request_accepted>,
                                      caf::reacts_to<text_arrived>, caf::reacts_to<request_ended>>;

// ---- host -> engine

/// Answered by messages to `reader`, whose death ends the request as client_gone.
struct submit_request {
  std::uint64_t tag = 0;
  core::generation_request request;
  reader_actor reader;
  bool operator==(const submit_request&) const = default;
};
/// Ends as cancelled; unknown, late and repeated ones are normal.
struct cancel_request {
  core::request_id id;
  bool operator==(const cancel_request&) const = default;
};

/// Why text could not become tokens, or tokens text: what a client of the HTTP API would read.
struct text_error {
  core::refusal why = core::refusal::none;
  std::string message;
  bool operator==(const text_error&) const = default;
};
/// The tokens that this request's prompt would have; nothing is generated. Read in slices between
/// other messages, however long it is, one prompt at a time; ask with a finite timeout.
struct encode_prompt {
  core::generation_request request;
  bool operator==(const encode_prompt&) const = default;
};
struct prompt_encoded {
  std::variant<std::vector<token_id>, text_error> outcome;
  bool operator==(const prompt_encoded&) const = default;
};
/// The text of tokens, special ones included; bytes that are no character become U+FFFD.
struct decode_tokens {
  std::vector<token_id> tokens;
  bool operator==(const decode_tokens&) const = default;
};
struct tokens_decoded {
  std::variant<std::string, text_error> outcome;
  bool operator==(const tokens_decoded&) const = default;
};

using engine_actor =
    caf::typed_actor<caf::reacts_to<submit_request>, caf::reacts_to<cancel_request>,
                     caf::replies_to<encode_prompt>::with<prompt_encoded>,
                     caf::replies_to<decode_tokens>::with<tokens_decoded>>;

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, request_accepted& x) {
  auto& [tag, id, prompt_tokens] = x;
  return wire::members(f, tag, id, prompt_tokens);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, text_arrived& x) {
  auto& [tag, id, delta] = x;
  return wire::members(f, tag, id, delta);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, request_ended& x) {
  auto& [tag, id, end] = x;
  return wire::members(f, tag, id, end);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, submit_request& x) {
  auto& [tag, request, reader] = x;
  return wire::members(f, tag, request, reader);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, cancel_request& x) {
  auto& [id] = x;
  return wire::members(f, id);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, text_error& x) {
  auto& [why, message] = x;
  return wire::members(f, why, message);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, encode_prompt& x) {
  auto& [request] = x;
  return wire::members(f, request);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, prompt_encoded& x) {
  auto& [outcome] = x;
  return wire::members(f, outcome);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, decode_tokens& x) {
  auto& [tokens] = x;
  return wire::members(f, tokens);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, tokens_decoded& x) {
  auto& [outcome] = x;
  return wire::members(f, outcome);
}

// ---- from the sinks of the engine actor's requests, and from itself, to itself: never outside

/// `key` counts the requests of one engine actor: a sink can speak before the engine has named its
/// request.
struct sink_event {
  std::uint64_t key = 0;
  std::variant<std::uint32_t, core::generation_delta, core::generation_end>
      what;  ///< accepted with prompt tokens; delta; end
};
/// Other messages had their turn: the next slice of the prompt that is being encoded.
struct encode_on {};

}  // namespace troupe::protocol
