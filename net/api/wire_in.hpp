// From the bytes of a body to a validated request: pure, no socket, no engine. Every mistake comes
// back as one api_error naming the field (or the byte) and its limit; nothing throws. Field rules:
// api_table.hpp.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/api/generation.hpp"
#include "config/runtime_config.hpp"
#include "net/api/api_error.hpp"

namespace troupe::net {

enum class api_kind : std::uint8_t { chat, completions, responses };
/// The field that holds the prompt: messages, prompt or input.
const char* prompt_field(api_kind);

/// What parsing needs to know of the server.
struct wire_limits {
  std::vector<std::string> models;  ///< the first is the default
  std::uint32_t vocab = 0;          ///< 0: not checked
  std::uint32_t max_n = 16;
  std::uint64_t max_at_once = 0;  ///< choices that may run or wait together; 0: not checked
  std::uint32_t context = 0;      ///< tokens; 0: not checked
  bool priorities = true;         ///< requests may name one
};
wire_limits limits_of(const runtime_config&, const core::model_card&);

/// What a Responses object repeats of its request.
struct responses_fields {
  std::optional<std::string> instructions;
  std::optional<std::uint32_t> max_output_tokens;
  bool store = true;
  std::string metadata = "{}";  ///< JSON
};

/// One API object to be answered.
struct api_request {
  api_kind kind = api_kind::chat;
  std::string model;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool tokens_as_ids = false;                     ///< return_tokens_as_token_ids
  std::vector<core::generation_request> prompts;  ///< one request for each, never empty
  std::uint32_t n = 1;                            ///< choices of each prompt
  responses_fields responses;

  /// Choice i of prompt p has the index p * n + i.
  std::size_t choices() const { return prompts.size() * n; }
};

std::variant<api_request, api_error> parse_chat(std::string_view body, const wire_limits&);
std::variant<api_request, api_error> parse_completions(std::string_view body, const wire_limits&);
std::variant<api_request, api_error> parse_responses(std::string_view body, const wire_limits&);

struct tokenize_request {
  core::generation_request source;
  bool return_token_strs = false;
};
std::variant<tokenize_request, api_error> parse_tokenize(std::string_view body, const wire_limits&);
std::variant<std::vector<token_id>, api_error> parse_detokenize(std::string_view body,
                                                                const wire_limits&);

/// A WebSocket message; a `response.create` is its request, always streamed.
struct ws_cancel {
  std::optional<std::string> response_id;
};
struct ws_steer {};
using ws_message = std::variant<api_request, ws_cancel, ws_steer, api_error>;
ws_message read_ws_message(std::string_view text, const wire_limits&);

}  // namespace troupe::net
