// An error as the client sees it: one value made where the mistake is found, written by
// error_body(). Also decides which ends of a generation are errors and which are answers.
#pragma once
#include <optional>
#include <string>

#include "actors/api/generation.hpp"

namespace troupe::net {

struct api_error {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::optional<std::string> param = std::nullopt;
  std::optional<std::string> code = std::nullopt;
  std::optional<int> retry_after_s = std::nullopt;
  bool never_retry = false;  ///< x-should-retry: false
};

/// 400 with code `invalid_value`, or `code`.
api_error invalid_value(std::string param, std::string message, std::string code = "invalid_value");
api_error unsupported_parameter(std::string param, std::string message);
/// 400 without a parameter: the body as a whole.
api_error invalid_body(std::string message);
api_error server_error(std::string code, std::string message, int status = 500);
api_error shutting_down();
api_error overloaded(std::string message);
api_error websocket_queue_full(std::uint32_t waiting_max);

/// `{"message","type","param","code"}`
std::string error_object(const api_error&);
/// `{"error":{...}}`
std::string error_body(const api_error&);
/// `{"type":"error","status","error":{...}}`: a WebSocket's frame.
std::string error_envelope(const api_error&);
/// The answer to `response.steer`.
std::string steering_failed();

/// Nothing when the end is an answer (stop, length, cancelled). `prompt_field`: where the endpoint
/// takes its prompt, for refusals that are about it.
std::optional<api_error> error_of(const core::generation_end&, const char* prompt_field);
/// "stop", "length" or "cancelled"; only for ends that are answers.
const char* finish_reason_of(const core::generation_end&);

}  // namespace troupe::net
