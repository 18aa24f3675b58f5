#include "tools/client/answer_reader.hpp"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

namespace troupe::api_client {
namespace {

using nlohmann::json;

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
  try {
    read();
  } catch (const std::exception& fault) {
    fail(fault.what());
  }
}

void answer_reader::read() {
  if (!upgraded()) http_.feed(unread_, [this](std::string_view piece) { take_body(piece); });
  if (status() == 0 || over_with_it_) return;
  if (!std::exchange(head_read_, true) && over_ == transport::plain) ++events_;
  if (upgraded()) return read_messages();
  if (over_ == transport::websocket && status() == 200)
    return fail("the upgrade was answered with 200");
  if (http_.complete()) body_over();
}

void answer_reader::end_of_stream() {
  if (over_with_it_) return;
  http_.end_of_stream();
  if (http_.complete() && !upgraded()) return body_over();
  fail(head_read_ ? "the server closed inside the answer" : "the server closed without an answer");
}

bool answer_reader::take_ping(std::string& payload) {
  if (!ping_due_) return false;
  payload = ping_;
  ping_due_ = false;
  return true;
}

void answer_reader::take_body(std::string_view piece) {
  if (over_ == transport::sse && status() == 200)
    sse_.feed(piece, [this](std::string_view data) { take_event(data); });
  else
    body_ += piece;
}

void answer_reader::take_event(std::string_view data) {
  if (over_with_it_) return;  // an earlier event of the same bytes was an error
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
  if (status() != 200) return fail(fmt::format("status {}: {}", status(), shown(body_)));
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

void answer_reader::read_messages() {
  for (ws_message message; !over_with_it_ && messages_.next(unread_, message);) {
    if (message.opcode == 8) return fail("the server sent a close frame");
    if (message.opcode == 9) ping_ = message.payload, ping_due_ = true;
    if (message.opcode < 8) take_message(message.payload);
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

}  // namespace troupe::api_client
