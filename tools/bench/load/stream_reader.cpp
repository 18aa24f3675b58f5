#include "tools/bench/load/stream_reader.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace troupe {
namespace {

constexpr std::size_t line_max = 1 << 20, body_max = 64 << 10;

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

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return (x | 0x20) == (y | 0x20); });
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

bool stream_reader::take_line(std::string_view& bytes, std::string& line) {
  const auto end = bytes.find('\n');
  line.append(bytes.substr(0, end));
  if (line.size() > line_max)
    throw std::runtime_error(fmt::format("a line of more than {} bytes", line_max));
  if (end == std::string_view::npos) {
    bytes = {};
    return false;
  }
  bytes.remove_prefix(end + 1);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return true;
}

void stream_reader::read_head_line(const std::string& line) {
  if (!status_) {
    if (!line.starts_with("HTTP/1.") || line.size() < 12 ||
        std::from_chars(line.data() + 9, line.data() + 12, status_).ec != std::errc())
      throw std::runtime_error("no HTTP/1 reply");
    return;
  }
  const auto colon = line.find(':');
  const auto name = std::string_view(line).substr(0, colon);
  auto value =
      colon == std::string::npos ? std::string_view() : std::string_view(line).substr(colon + 1);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  if (same_name(name, "transfer-encoding"))
    chunked_ = value.find("chunked") != std::string_view::npos;
  if (same_name(name, "content-type")) events_ = value.starts_with("text/event-stream");
  if (same_name(name, "content-length")) {
    std::uint64_t length = 0;
    if (std::from_chars(value.data(), value.data() + value.size(), length).ec != std::errc())
      throw std::runtime_error("a Content-Length that is no number");
    length_ = length;
  }
}

void stream_reader::begin_body() {
  if (status_ / 100 == 1) {  // an interim reply; the real one follows
    status_ = 0;
    return;
  }
  if (chunked_) length_.reset();
  state_ = chunked_ ? state::chunk_size : length_ == 0u ? state::over : state::plain;
}

void stream_reader::content(std::string_view bytes, const event_call& on_event) {
  if (!events_) {
    text_.append(bytes.substr(0, body_max - std::min(body_max, text_.size())));
    return;
  }
  while (!bytes.empty() && take_line(bytes, text_)) {
    std::string_view line = text_;
    if (line.starts_with("data:")) {
      line.remove_prefix(line.size() > 5 && line[5] == ' ' ? 6 : 5);
      on_event(read_event(line));
    }
    text_.clear();
  }
}

void stream_reader::feed(std::string_view bytes, const event_call& on_event) {
  while (!bytes.empty() && state_ != state::over) {
    if (state_ == state::plain || state_ == state::chunk) {
      const auto count = static_cast<std::size_t>(
          std::min<std::uint64_t>(bytes.size(), length_.value_or(bytes.size())));
      content(bytes.substr(0, count), on_event);
      bytes.remove_prefix(count);
      if (length_ && (*length_ -= count) == 0)
        state_ = state_ == state::chunk ? state::chunk_end : state::over;
      continue;
    }
    if (!take_line(bytes, line_)) return;
    switch (state_) {
      case state::head:
        line_.empty() ? begin_body() : read_head_line(line_);
        break;
      case state::chunk_size: {
        std::uint64_t size = 0;
        if (std::from_chars(line_.data(), line_.data() + line_.size(), size, 16).ec != std::errc())
          throw std::runtime_error("a chunk without a size");
        length_ = size;
        state_ = size ? state::chunk : state::trailer;
        break;
      }
      case state::chunk_end:
        state_ = state::chunk_size;
        break;
      case state::trailer:
        state_ = line_.empty() ? state::over : state::trailer;
        break;
      default:
        break;
    }
    line_.clear();
  }
}

}  // namespace troupe
