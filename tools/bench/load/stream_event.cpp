#include "tools/bench/load/stream_event.hpp"

#include <charconv>

namespace troupe {
namespace {

/// What follows `"key":` and white space. Inside a JSON string the quotes of a key are escaped, so
/// the model's own text is never taken for a key.
std::optional<std::string_view> after_key(std::string_view payload, std::string_view quoted_key) {
  const auto at = payload.find(quoted_key);
  if (at == std::string_view::npos) return std::nullopt;
  auto rest = payload.substr(at + quoted_key.size());
  const auto skip = rest.find_first_not_of(" \t:");
  return skip == std::string_view::npos ? std::nullopt : std::optional(rest.substr(skip));
}

bool has_text(std::string_view payload, std::string_view quoted_key) {
  const auto value = after_key(payload, quoted_key);
  return value && value->size() > 1 && (*value)[0] == '"' && (*value)[1] != '"';
}

template <class Number>
std::optional<Number> number(std::string_view payload, std::string_view quoted_key) {
  const auto value = after_key(payload, quoted_key);
  Number out{};
  if (!value ||
      std::from_chars(value->data(), value->data() + value->size(), out).ec != std::errc())
    return std::nullopt;
  return out;
}

}  // namespace

stream_event read_event(std::string_view payload) {
  stream_event out;
  if (payload == "[DONE]") {
    out.done = true;
    return out;
  }
  out.text = has_text(payload, "\"text\"") || has_text(payload, "\"content\"") ||
             has_text(payload, "\"reasoning_content\"");
  out.finished = has_text(payload, "\"finish_reason\"");
  const auto error = after_key(payload, "\"error\"");
  out.error = error && error->starts_with('{');
  if (payload.find("\"usage\"") != std::string_view::npos) {
    out.prompt_tokens = number<std::uint32_t>(payload, "\"prompt_tokens\"");
    out.completion_tokens = number<std::uint32_t>(payload, "\"completion_tokens\"");
  }
  if (payload.find("\"timings\"") != std::string_view::npos)
    out.tokens_per_s = number<double>(payload, "\"predicted_per_second\"");
  return out;
}

}  // namespace troupe
