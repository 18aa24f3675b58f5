#include "net/api/api_error.hpp"

#include "net/json/json_writer.hpp"

namespace troupe::net {
namespace {

/// A member without a value is null and not left out: all four are in OpenAI's error objects, and
/// typed clients read them.
void put_optional(json_writer& out, const char* key, const std::optional<std::string>& value) {
  out.key(key);
  if (value) {
    out.string(*value);
  } else {
    out.null();
  }
}

/// `message` is the engine's, which knows values and limits; `fallback` is for ends that have none.
std::string or_else(const std::string& message, const char* fallback) {
  return message.empty() ? fallback : message;
}

/// What the client can change is a 400 that names the field it sent the prompt in; what passes by
/// itself is a 503 with the time to come again.
api_error error_of_refusal(const core::generation_end& end, const char* prompt_field) {
  using core::refusal;
  switch (end.why_refused) {
    case refusal::queue_full:
      return overloaded(or_else(end.message, "The request queue is full."));
    case refusal::draining:
      return shutting_down();
    case refusal::context_length:
      // OpenAI's code: clients that shorten a conversation by themselves look for it.
      return {.message = end.message, .param = prompt_field, .code = "context_length_exceeded"};
    // No `param`: prompt and max_tokens together do not fit, and either may be made smaller.
    case refusal::kv_capacity:
      return {.message = or_else(end.message, "The request can never fit the KV cache."),
              .code = "kv_capacity_exceeded"};
    case refusal::empty_prompt:
      return {.message = or_else(end.message, "The prompt has no token to start from."),
              .param = prompt_field,
              .code = "invalid_value"};
    case refusal::bad_template:
      return {.message = or_else(end.message, "The chat template refused these messages."),
              .param = prompt_field,
              .code = "invalid_value"};
    case refusal::invalid_token:
      return {.message = or_else(end.message, "A token id is outside the vocabulary."),
              .param = prompt_field,
              .code = "invalid_value"};
    case refusal::none:
      break;
  }
  return server_error("internal_error", or_else(end.message, "The request was refused."));
}

}  // namespace

api_error invalid_value(std::string param, std::string message, std::string code) {
  return {.message = std::move(message), .param = std::move(param), .code = std::move(code)};
}

api_error unsupported_parameter(std::string param, std::string message) {
  return invalid_value(std::move(param), std::move(message), "unsupported_parameter");
}

api_error invalid_body(std::string message) {
  return {.message = std::move(message)};
}

api_error server_error(std::string code, std::string message, int status) {
  return {.status = status,
          .message = std::move(message),
          .type = "server_error",
          .code = std::move(code)};
}

api_error shutting_down() {
  auto e = server_error("server_shutting_down", "The server is shutting down.", 503);
  e.retry_after_s = 5;
  return e;
}

api_error overloaded(std::string message) {
  auto e = server_error("server_is_overloaded", std::move(message), 503);
  e.retry_after_s = 1;
  return e;
}

std::string error_object(const api_error& e) {
  json_writer out;
  out.open_object().key("message").string(e.message).key("type").string(e.type);
  put_optional(out, "param", e.param);
  put_optional(out, "code", e.code);
  return out.close_object().take();
}

// A limit of this one connection: the server itself has room, so it is no overload.
api_error websocket_queue_full(std::uint32_t waiting_max) {
  return {.status = 429,
          .message = "More than " + std::to_string(waiting_max) +
                     " responses are waiting on this connection.",
          .type = "rate_limit_error",
          .code = "websocket_queue_full"};
}

// Steering is a message of the protocol, so it gets the protocol's own event and not an unknown
// type.
std::string steering_failed() {
  return R"({"type":"response.steer.failed","error":{"type":"invalid_request_error",)"
         R"("code":"steering_not_supported","message":"Steering is not supported.","param":null}})";
}

std::string error_envelope(const api_error& e) {
  return "{\"type\":\"error\",\"status\":" + std::to_string(e.status) +
         ",\"error\":" + error_object(e) + "}";
}

std::string error_body(const api_error& e) {
  return "{\"error\":" + error_object(e) + "}";
}

std::optional<api_error> error_of(const core::generation_end& end, const char* prompt_field) {
  using core::end_reason;
  const auto timeout = [&](const char* what) {
    api_error e{.status = 408,
                .message = or_else(end.message, what),
                .type = "server_error",
                .code = "deadline_exceeded"};
    // OpenAI's clients repeat a 408 by themselves; the same deadline would pass again, after as
    // much work.
    e.never_retry = true;
    return e;
  };
  switch (end.reason) {
    // Answers. A cancel by id is one, too: whoever asked for it wants what there is.
    case end_reason::end_token:
    case end_reason::stop_token:
    case end_reason::stop_string:
    case end_reason::stop_confidence:
    case end_reason::stop_repetition:
    case end_reason::length:
    case end_reason::cancelled:
      return std::nullopt;
    case end_reason::queue_timeout:
      return timeout("The request waited too long in the queue.");
    case end_reason::first_token_timeout:
      return timeout("The first token took too long.");
    case end_reason::total_timeout:
      return timeout("The request took too long.");
    case end_reason::slow_reader:
      return server_error("slow_reader",
                          or_else(end.message, "The client read its answer too slowly."));
    case end_reason::session_crash:
      return server_error("session_crash", or_else(end.message, "The request's session crashed."));
    case end_reason::bad_logits:
      return server_error("bad_logits",
                          or_else(end.message, "The model produced NaN or infinite logits."));
    case end_reason::step_failed:
      return server_error("step_failed", or_else(end.message, "The device failed a step."));
    case end_reason::engine_failed:
      return server_error("engine_failed", or_else(end.message, "The engine failed."));
    case end_reason::client_gone:
      return server_error("client_gone", "The client left.");
    case end_reason::shutdown:
      return shutting_down();
    // The request's own fields leave nothing to draw: not the server's fault, although it shows
    // only while it runs.
    case end_reason::no_token_allowed: {
      api_error e;
      e.message = or_else(end.message, "No token is allowed here.");
      e.code = "no_token_allowed";
      return e;
    }
    case end_reason::refused:
      return error_of_refusal(end, prompt_field);
  }
  return server_error("internal_error", "The request ended for an unknown reason.");
}

// OpenAI has one word for all stops, and typed clients know no other; log and metrics tell them
// apart. "cancelled" is ours: only a caller who cancels by id ever sees it.
const char* finish_reason_of(const core::generation_end& end) {
  if (end.reason == core::end_reason::length) return "length";
  if (end.reason == core::end_reason::cancelled) return "cancelled";
  return "stop";
}

}  // namespace troupe::net
