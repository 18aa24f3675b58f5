// How one API object is written: as a stream of SSE events or as one JSON body. Pure; owned by the
// reply in progress, fed with the deltas and ends of its choices. Knows no socket; one class per
// endpoint.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/api/generation.hpp"
#include "net/api/api_error.hpp"
#include "net/api/wire_in.hpp"
#include "net/json/json_writer.hpp"

namespace troupe::net {

struct reply_meta {
  std::string id;
  std::int64_t created = 0;  ///< Unix seconds
  std::function<std::string(token_id)> token_bytes;
  std::function<std::int64_t()> unix_now;
};

class reply_encoder {
 public:
  virtual ~reply_encoder() = default;

  // A stream. Each answers SSE text ready to be sent, possibly empty.
  virtual std::string begin(std::size_t choice) = 0;
  virtual std::string text(std::size_t choice, const core::generation_delta&) = 0;
  virtual std::string end(std::size_t choice, const core::generation_end&) = 0;
  /// After the last end: usage where asked for, then [DONE].
  virtual std::string close() = 0;
  /// Instead of close().
  virtual std::string fail(const api_error&) = 0;

  // One body.
  virtual void collect(std::size_t choice, const core::generation_delta&) = 0;
  virtual void collect_end(std::size_t choice, const core::generation_end&) = 0;
  virtual std::string whole() = 0;
};

/// chat and completions: what both keep about their choices.
struct choice_tally {
  std::uint32_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  core::request_times times;
};

std::unique_ptr<reply_encoder> make_chat_encoder(const api_request&, reply_meta);
std::unique_ptr<reply_encoder> make_completions_encoder(const api_request&, reply_meta);
std::unique_ptr<reply_encoder> make_responses_encoder(const api_request&, reply_meta);
std::unique_ptr<reply_encoder> make_encoder(const api_request&, reply_meta);

/// `data: <json>` and the empty line.
std::string sse_event(const std::string& json);
std::string sse_event(const std::string& type, const std::string& json);
inline constexpr const char* sse_done = "data: [DONE]\n\n";
inline constexpr const char* sse_keep_alive = ": keep-alive\n\n";

/// `n`: choices per prompt; each prompt counts once.
std::string usage_json(const std::vector<choice_tally>&, std::uint32_t n);
std::string timings_json(const std::vector<choice_tally>&);
/// "finish_reason" and "stop_reason" members of an ended choice.
void put_finish(json_writer&, const core::generation_end&);
/// Log-probabilities have no JSON for minus infinity.
float wire_logprob(float);
std::string token_name(token_id, const std::string& bytes, bool as_id);
/// The fixed fields that open every chat and completions object.
void put_head(json_writer&, const reply_meta&, const char* object, const std::string& model);

}  // namespace troupe::net
