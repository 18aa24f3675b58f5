#include "tools/client/answer_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>

namespace troupe::chaos {
namespace {

using nlohmann::json;

std::string lower(std::string_view text) {
  std::string out{text};
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return out;
}

/// Value of a header in a head that is already lower case; empty when absent.
std::string_view header(std::string_view head, std::string_view name) {
  auto at = head.find(fmt::format("\r\n{}:", name));
  if (at == std::string_view::npos) return {};
  at += name.size() + 3;
  auto value = head.substr(at, head.find("\r\n", at) - at);
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  return value;
}

std::string shown(std::string_view text) {
  return std::string{text.substr(0, 200)};
}

}  // namespace

void answer_reader::fail(std::string why) {
  if (over_with_it_) return;
  error_ = std::move(why);
  over_with_it_ = true;
}

void answer_reader::feed(std::string_view bytes) {
  if (over_with_it_) return;
  unread_ += bytes;
  if (!head_read_) read_head();
  if (!head_read_ || over_with_it_) return;
  if (upgraded_)
    read_frames();
  else
    read_body();
}

void answer_reader::end_of_stream() {
  if (over_with_it_) return;
  if (head_read_ && !upgraded_ && !chunked_ && !has_length_) return body_over();
  fail(head_read_ ? "the server closed inside the answer" : "the server closed without an answer");
}

bool answer_reader::take_ping(std::string& payload) {
  if (!ping_due_) return false;
  payload = ping_;
  ping_due_ = false;
  return true;
}

void answer_reader::read_head() {
  const auto end = unread_.find("\r\n\r\n");
  if (end == std::string::npos) return;
  const auto head = lower(std::string_view{unread_}.substr(0, end + 2));
  unread_.erase(0, end + 4);
  head_read_ = true;
  const auto space = head.find(' ');
  if (!head.starts_with("http/1.") || space == std::string::npos ||
      std::from_chars(head.data() + space + 1, head.data() + head.size(), status_).ec !=
          std::errc{})
    return fail(fmt::format("no HTTP status line: {}", shown(head)));
  upgraded_ = status_ == 101;
  if (over_ == transport::websocket && !upgraded_ && status_ == 200)
    return fail("the upgrade was answered with 200");
  if (over_ == transport::plain) ++events_;
  chunked_ = header(head, "transfer-encoding").find("chunked") != std::string_view::npos;
  const auto length = header(head, "content-length");
  has_length_ = !length.empty();
  if (has_length_ &&
      std::from_chars(length.data(), length.data() + length.size(), length_left_).ec != std::errc{})
    fail(fmt::format("content-length is no number: {}", shown(length)));
}

void answer_reader::read_body() {
  if (chunked_) {
    while (!over_with_it_ && read_chunk()) {
    }
    return;
  }
  std::string piece;
  piece.swap(unread_);
  if (has_length_) {
    piece.resize(std::min<std::uint64_t>(piece.size(), length_left_));
    length_left_ -= piece.size();
  }
  take_body(piece);
  if (has_length_ && length_left_ == 0) body_over();
}

/// False: more bytes are needed.
bool answer_reader::read_chunk() {
  const auto line = unread_.find("\r\n");
  if (line == std::string::npos) return false;
  std::uint64_t size = 0;
  if (std::from_chars(unread_.data(), unread_.data() + line, size, 16).ec != std::errc{} ||
      size > 1u << 30) {
    fail(fmt::format("no chunk size: {}", shown(unread_)));
    return false;
  }
  if (unread_.size() < line + 2 + size + 2) return false;
  take_body(std::string_view{unread_}.substr(line + 2, size));
  unread_.erase(0, line + 2 + size + 2);
  if (size == 0) body_over();
  return true;
}

void answer_reader::take_body(std::string_view piece) {
  body_ += piece;
  if (over_ != transport::sse || status_ != 200) return;
  for (auto end = body_.find("\n\n"); end != std::string::npos; end = body_.find("\n\n")) {
    const auto event = body_.substr(0, end);
    body_.erase(0, end + 2);
    if (event.starts_with("data: ")) take_event(std::string_view{event}.substr(6));
  }
}

void answer_reader::take_event(std::string_view data) {
  ++events_;
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const auto event = json::parse(data, nullptr, false);
  if (event.is_discarded() || !event.is_object())
    return fail(fmt::format("an event is no JSON: {}", shown(data)));
  if (event.contains("error")) return fail(fmt::format("an error event: {}", shown(data)));
  if (!event.contains("choices") || event["choices"].empty()) return;
  const auto& choice = event["choices"][0];
  if (choice.contains("text") && choice["text"].is_string())
    text_ += choice["text"].get<std::string>();
}

void answer_reader::body_over() {
  if (over_with_it_) return;
  if (status_ != 200) return fail(fmt::format("status {}: {}", status_, shown(body_)));
  if (over_ == transport::sse && !done_) return fail("the stream ended without [DONE]");
  if (over_ == transport::plain) {
    const auto reply = json::parse(body_, nullptr, false);
    if (reply.is_object() && reply.contains("choices") && !reply["choices"].empty()) {
      const auto& choice = reply["choices"][0];
      if (choice.contains("text") && choice["text"].is_string())
        text_ = choice["text"].get<std::string>();
    }
  }
  over_with_it_ = true;
}

void answer_reader::read_frames() {
  while (!over_with_it_ && unread_.size() >= 2) {
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(unread_[i]); };
    const bool final = byte(0) & 0x80;
    const auto opcode = byte(0) & 0x0f;
    std::uint64_t size = byte(1) & 0x7f;
    const std::size_t extra = size == 126 ? 2 : size == 127 ? 8 : 0;
    if (unread_.size() < 2 + extra) return;
    if (extra > 0) {
      size = 0;
      for (std::size_t i = 0; i < extra; ++i) size = size << 8 | byte(2 + i);
    }
    if (size > 1u << 30) return fail("a frame is larger than a gigabyte");
    if (unread_.size() < 2 + extra + size) return;
    const auto payload = unread_.substr(2 + extra, size);
    unread_.erase(0, 2 + extra + size);
    if (opcode == 8) return fail("the server sent a close frame");
    if (opcode == 9) ping_ = payload, ping_due_ = true;
    if (opcode >= 8) continue;
    message_ += payload;
    if (!final) continue;
    take_message(message_);
    message_.clear();
  }
}

void answer_reader::take_message(std::string_view data) {
  ++events_;
  const auto event = json::parse(data, nullptr, false);
  if (!event.is_object() || !event.contains("type"))
    return fail(fmt::format("no event: {}", shown(data)));
  const auto type = event["type"].get<std::string>();
  if (type == "response.output_text.delta") text_ += event.value("delta", "");
  if (type == "error" || type == "response.failed")
    return fail(fmt::format("an error event: {}", shown(data)));
  if (type == "response.completed" || type == "response.incomplete") over_with_it_ = true;
}

}  // namespace troupe::chaos
