#include "net/api/wire_fields.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

namespace troupe::net {
namespace {

namespace dom = simdjson::dom;

/// Inclusive at both ends; a field whose range is open (repetition_penalty) is checked again where
/// it is read.
void check_range(const api_field& field, double value) {
  if (field.min > field.max || (value >= field.min && value <= field.max)) return;
  // Beyond a double's range the value that was sent is not known any more.
  const auto shown = std::abs(value) < 1e300 ? fmt::format("{}", value) : "too large a number";
  throw invalid_value(field.name, fmt::format("'{}' is {}, allowed are {} to {}.", field.name,
                                              shown, field.min, field.max));
}

/// After this the readers below need no checks of their own.
void check_type(const api_field& field, dom::element value) {
  const auto need = [&](bool good, const char* wanted) {
    if (!good) throw wrong_type(field.name, wanted, value);
  };
  switch (field.type) {
    case field_type::any:
      return;
    case field_type::boolean:
      return need(value.is_bool(), "a boolean");
    case field_type::integer: {
      const auto integer = as_integer(value);
      // Seeds and ids must arrive exactly, so a number that only a double could hold is refused.
      need(integer.has_value(), value.is_number() ? "an integer of at most 63 bits" : "an integer");
      return check_range(field, static_cast<double>(*integer));
    }
    case field_type::number: {
      need(value.is_number(), "a number");
      return check_range(field, *as_number(value));
    }
    case field_type::text:
      return need(value.is_string(), "a string");
    case field_type::text_or_list:
      return need(value.is_string() || value.is_array(), "a string or an array");
    case field_type::list:
      return need(value.is_array(), "an array");
    case field_type::object:
      return need(value.is_object(), "an object");
  }
}

/// Compared as numbers (1 and 1.0 are equal) or as minified JSON. An empty list or object asks for
/// nothing, whatever the field's default is.
bool is_default(const api_field& field, dom::element value) {
  const std::string_view fallback = field.fallback;
  if (value.is_number())
    return !fallback.empty() && *as_number(value) == std::strtod(field.fallback, nullptr);
  const std::string json = simdjson::minify(value);
  return json == fallback || json == "[]" || json == "{}";
}

/// Members that a message may have and that are not read: each must still be what it claims to be.
void check_unread_members(dom::object message, const std::string& at) {
  for (const char* name : {"name", "tool_call_id"})
    if (const auto value = find(message, name); value && !value->is_string())
      throw wrong_type(fmt::format("{}.{}", at, name), "a string", *value);
  const auto calls = find(message, "tool_calls");
  if (!calls) return;
  const std::string param = at + ".tool_calls";
  if (!calls->is_array()) throw wrong_type(param, "an array", *calls);
  std::size_t i = 0;
  for (const dom::element call : array_of(*calls)) {
    if (!call.is_object()) throw wrong_type(fmt::format("{}[{}]", param, i), "an object", call);
    ++i;
  }
}

}  // namespace

// The kind that came is named, not its value: that may be long or private.
api_error wrong_type(const std::string& param, const char* wanted, dom::element got) {
  return invalid_value(param,
                       fmt::format("'{}' must be {}, not {}.", param, wanted, type_name(got)));
}

wire_fields::wire_fields(dom::object object, endpoint_bit endpoint, const wire_limits& limits)
    : limits_{limits} {
  for (const api_field& field : api_fields()) {
    // An ignored field is not even checked: clients put anything there.
    if ((field.endpoints & endpoint) == 0 || field.level == field_level::ignored) continue;
    const auto value = find(object, field.name);
    if (!value) continue;
    check_type(field, *value);
    if (field.level == field_level::rejected && !is_default(field, *value))
      throw unsupported_parameter(
          field.name,
          fmt::format("'{}' is not supported by this release; leave it out.", field.name));
    checked_.emplace_back(field.name, *value);
  }
}

// A request has a handful of fields: a map would cost more than it finds.
std::optional<dom::element> wire_fields::get(std::string_view name) const {
  for (const auto& [field, value] : checked_)
    if (field == name) return value;
  return std::nullopt;
}

bool wire_fields::boolean(std::string_view name, bool fallback) const {
  const auto value = get(name);
  return value ? value->get_bool().value_unsafe() : fallback;
}

std::int64_t wire_fields::integer(std::string_view name, std::int64_t fallback) const {
  const auto value = get(name);
  return value ? *as_integer(*value) : fallback;
}

float wire_fields::number(std::string_view name, float fallback) const {
  const auto value = get(name);
  return value ? static_cast<float>(*as_number(*value)) : fallback;
}

std::optional<std::string> wire_fields::text(std::string_view name) const {
  const auto value = get(name);
  if (!value) return std::nullopt;
  return std::string{*as_text(*value)};
}

std::string wire_fields::model() const {
  const auto asked = text("model");
  // An empty name is none, as in vLLM: clients send it when no model is chosen.
  if (!asked || asked->empty()) return limits_.models.front();
  for (const auto& served : limits_.models)
    if (*asked == served) return served;
  throw api_error{.status = 404,
                  .message = fmt::format("The model '{}' does not exist.", *asked),
                  .param = "model",
                  .code = "model_not_found"};
}

// The first is for single ids in a body, the second for keys of an object, which are texts there.
token_id wire_fields::token(dom::element value, const std::string& param) const {
  const auto id = as_integer(value);
  if (!id) throw wrong_type(param, "a token id", value);
  return token(*id, param);
}

token_id wire_fields::token(std::int64_t id, const std::string& param) const {
  if (!is_token(id))
    throw invalid_value(
        param, fmt::format("'{}' is {}, token ids are 0 to {}.", param, id, token_end() - 1));
  return static_cast<token_id>(id);
}

std::vector<token_id> wire_fields::tokens(dom::array array, const std::string& param) const {
  std::vector<token_id> all;
  all.reserve(array.size());
  for (const dom::element item : array) {
    const auto id = as_integer(item);
    // An item's name costs more than all the rest, and only a mistake needs it.
    all.push_back(id && is_token(*id) ? static_cast<token_id>(*id)
                                      : token(item, fmt::format("{}[{}]", param, all.size())));
  }
  return all;
}

std::string content_text(std::optional<dom::element> content, const std::string& param,
                         bool null_is_empty) {
  if (!content) {
    if (null_is_empty) return "";
    throw invalid_value(param, fmt::format("'{}' is required.", param));
  }
  if (const auto text = as_text(*content)) return std::string{*text};
  if (!content->is_array()) throw wrong_type(param, "a string or an array of parts", *content);
  // Parts are joined by line breaks, as vLLM does for models without images.
  const dom::array parts = array_of(*content);
  if (parts.size() == 0)
    throw invalid_value(param, fmt::format("'{}' must not be an empty array.", param));
  std::string all;
  std::size_t i = 0;
  for (const dom::element part : parts) {
    const std::string at = fmt::format("{}[{}]", param, i);
    dom::object object;
    if (part.get_object().get(object)) throw wrong_type(at, "an object", part);
    const auto type = find(object, "type");
    const auto kind = type ? as_text(*type) : std::nullopt;
    // Chat says text; Responses says input_text, and output_text for what the model wrote earlier.
    if (!kind || (*kind != "text" && *kind != "input_text" && *kind != "output_text"))
      throw invalid_value(
          at + ".type", fmt::format("'{}.type' must be text; other parts are not supported.", at));
    const auto text = find(object, "text");
    const auto words = text ? as_text(*text) : std::nullopt;
    if (!words) throw invalid_value(at + ".text", fmt::format("'{}.text' must be a string.", at));
    if (i++ > 0) all += '\n';
    all += *words;
  }
  return all;
}

std::vector<core::chat_message> wire_fields::messages(std::string_view name) const {
  const auto value = get(name);
  if (!value) throw invalid_value(std::string{name}, fmt::format("'{}' is required.", name));
  std::vector<core::chat_message> all;
  for (const dom::element item : array_of(*value)) {
    const std::string at = fmt::format("{}[{}]", name, all.size());
    dom::object object;
    if (item.get_object().get(object)) throw wrong_type(at, "an object", item);
    const auto type = find(object, "type");
    if (type && as_text(*type) != std::string_view{"message"})
      throw invalid_value(
          at + ".type",
          fmt::format("'{}.type' must be message; other items are not supported.", at));
    const auto role = find(object, "role");
    const auto who = role ? as_text(*role) : std::nullopt;
    if (!who) throw invalid_value(at + ".role", fmt::format("'{}.role' must be a string.", at));
    // OpenAI's newer name for system; templates know only the old one.
    std::string speaker{*who == "developer" ? "system" : *who};
    if (speaker != "system" && speaker != "user" && speaker != "assistant" && speaker != "tool")
      throw invalid_value(
          at + ".role",
          fmt::format("'{}.role' must be system, developer, user, assistant or tool.", at));
    check_unread_members(object, at);
    // An assistant's turn that only called tools has content null.
    const bool null_is_empty = speaker == "assistant";
    all.push_back({std::move(speaker),
                   content_text(find(object, "content"), at + ".content", null_is_empty)});
  }
  if (all.empty())
    throw invalid_value(std::string{name}, fmt::format("'{}' must not be empty.", name));
  return all;
}

void wire_fields::refuse_tools() const {
  const auto tools = get("tools");
  const bool offered = tools && array_of(*tools).size() > 0;
  for (const char* name : {"tool_choice", "function_call"}) {
    const auto choice = get(name);
    const auto word = choice ? as_text(*choice) : std::nullopt;
    // Tools may be listed as long as none is to be called.
    if (word == std::string_view{"none"}) return;
    if (offered)
      throw unsupported_parameter("tools",
                                  "'tools' is not supported by this release; leave it out or set "
                                  "'tool_choice' to none.");
    // A caller that demands a call relies on getting one: text in its place would be a wrong
    // answer.
    if (choice && word != std::string_view{"auto"})
      throw unsupported_parameter(
          name, fmt::format("'{}' may only be none or auto: this release calls no tools.", name));
  }
}

}  // namespace troupe::net
