// The Responses body and the messages of its WebSocket.
#include <fmt/format.h>

#include "net/api/wire_fields.hpp"
#include "net/api/wire_in.hpp"
#include "net/json/json_writer.hpp"

namespace troupe::net {
namespace {

namespace dom = simdjson::dom;

/// `text.format` asks for JSON of a schema, which a caller would parse: only plain text is
/// accepted.
void refuse_formats(const wire_fields& in) {
  const auto text = in.get("text");
  if (!text) return;
  const auto format = find(object_of(*text), "format");
  if (!format) return;
  dom::object object;
  if (format->get_object().get(object))
    throw invalid_value("text.format", "'text.format' must be an object.");
  const auto type = find(object, "type");
  if (type && as_text(*type) != std::string_view{"text"})
    throw unsupported_parameter("text.format", "'text.format' other than text is not supported.");
}

core::generation_request read_source(const wire_fields& in,
                                     const std::optional<std::string>& instructions) {
  core::generation_request one = in.sampling_request();
  std::vector<core::chat_message> messages;
  // Instructions hold for this response only, and stand before what the input says.
  if (instructions) messages.push_back({"system", *instructions});
  const auto input = in.get("input");
  if (!input) throw invalid_value("input", "'input' is required.");
  if (const auto text = as_text(*input)) {
    messages.push_back({"user", std::string{*text}});
  } else if (input->is_array()) {
    for (auto& m : in.messages("input")) messages.push_back(std::move(m));
  } else {
    throw invalid_value(
        "input", fmt::format("'input' must be a string or an array, not {}.", type_name(*input)));
  }
  one.prompt = std::move(messages);
  one.parse_special = false;
  return one;
}

/// `websocket`: `stream` and `stream_options` mean nothing there.
api_request read_responses(const wire_fields& in, bool websocket) {
  api_request out;
  out.kind = api_kind::responses;
  out.model = in.model();
  out.stream = websocket || in.boolean("stream", false);
  in.refuse_tools();
  refuse_formats(in);
  // Responses are not stored, so none can be continued; the code is OpenAI's.
  if (const auto previous = in.text("previous_response_id"))
    throw invalid_value("previous_response_id",
                        fmt::format("Previous response with id '{}' not found.", *previous),
                        "previous_response_not_found");
  auto& fields = out.responses;
  fields.instructions = in.text("instructions");
  fields.store = in.boolean("store", true);
  if (const auto metadata = in.get("metadata"))
    // Given back as it came; on one line, because a WebSocket frame or an SSE line holds it.
    fields.metadata = on_one_line(simdjson::minify(*metadata));
  core::generation_request one = read_source(in, fields.instructions);
  if (in.get("max_output_tokens")) {
    fields.max_output_tokens = static_cast<std::uint32_t>(in.integer("max_output_tokens", 0));
    one.decode.max_tokens = fields.max_output_tokens;
    if (one.decode.min_tokens > *one.decode.max_tokens)
      throw invalid_value("min_tokens", "'min_tokens' is more than 'max_output_tokens'.");
  }
  out.prompts.push_back(std::move(one));
  return out;
}

}  // namespace

std::variant<api_request, api_error> parse_responses(std::string_view body,
                                                     const wire_limits& limits) {
  json_document document;
  if (auto fault = document.parse_object(body, "request body")) return std::move(*fault);
  try {
    return read_responses(wire_fields{document.object(), on_responses, limits}, false);
  } catch (api_error& e) {
    return std::move(e);
  }
}

ws_message read_ws_message(std::string_view text, const wire_limits& limits) {
  json_document document;
  if (auto fault = document.parse_object(text, "message")) {
    // A message has no HTTP status; clients of the socket tell errors by their codes.
    if (!fault->code) fault->code = "invalid_json";
    return std::move(*fault);
  }
  const auto type = find(document.object(), "type");
  const auto name = type ? as_text(*type) : std::nullopt;
  if (!name) return invalid_value("type", "'type' must be a string.", "unknown_event_type");
  try {
    if (*name == "response.create")
      return read_responses(wire_fields{document.object(), on_responses, limits}, true);
  } catch (api_error& e) {
    return std::move(e);
  }
  if (*name == "response.steer") return ws_steer{};
  if (*name == "response.cancel") {
    if (find(document.object(), "stream_id"))
      return unsupported_parameter("stream_id", "'stream_id' is not supported by this release.");
    const auto id = find(document.object(), "response_id");
    const auto value = id ? as_text(*id) : std::nullopt;
    return ws_cancel{value ? std::optional{std::string{*value}} : std::nullopt};
  }
  return invalid_value("type", fmt::format("Unknown event type '{}'.", *name),
                       "unknown_event_type");
}

}  // namespace troupe::net
