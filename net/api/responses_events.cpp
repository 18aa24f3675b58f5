#include "net/api/responses_events.hpp"

#include "net/server/random_id.hpp"

namespace troupe::net {
namespace {

template <class Integer>
void put_optional(json_writer& out, const char* key, const std::optional<Integer>& value) {
  out.key(key);
  if (value) {
    out.number(*value);
  } else {
    out.null();
  }
}

}  // namespace

responses_events::responses_events(const api_request& request, reply_meta meta)
    : meta_{std::move(meta)},
      model_{request.model},
      message_id_{random_id("msg_")},
      fields_{request.responses},
      sampling_{request.prompts.front().decode.sampling} {}

template <class Members>
wire_event responses_events::event(const char* type, Members members) {
  // Numbered as they are made, so they must be sent in that order.
  json_writer out;
  out.open_object().key("type").string(type).key("sequence_number").number(next_number_++);
  members(out);
  return {type, out.close_object().take()};
}

wire_event responses_events::response_event(const char* type) {
  return event(type, [&](json_writer& out) { out.key("response").raw(object()); });
}

// The output is always one message with one part, so both indexes are 0.
void responses_events::put_item_ids(json_writer& out) const {
  out.key("item_id")
      .string(message_id_)
      .key("output_index")
      .number(0)
      .key("content_index")
      .number(0);
}

// `annotations` and `logprobs` are required by the schema, and always empty here.
std::string responses_events::part(const std::string& text) const {
  json_writer out;
  out.open_object().key("type").string("output_text").key("text").string(text);
  out.key("annotations").open_array().close_array().key("logprobs").open_array().close_array();
  return out.close_object().take();
}

// The one output message; without content while it is only announced.
std::string responses_events::item(const char* state, bool with_content) const {
  json_writer out;
  out.open_object().key("id").string(message_id_).key("type").string("message");
  out.key("status").string(state).key("role").string("assistant").key("content").open_array();
  if (with_content) out.raw(part(text_));
  return out.close_array().close_object().take();
}

// Each nesting level is announced before what it contains: response, item, part. finish() closes
// them in reverse.
std::vector<wire_event> responses_events::begin() {
  begun_ = true;
  return {response_event("response.created"), response_event("response.in_progress"),
          event("response.output_item.added",
                [&](json_writer& out) {
                  out.key("output_index").number(0).key("item").raw(item("in_progress", false));
                }),
          event("response.content_part.added", [&](json_writer& out) {
            put_item_ids(out);
            out.key("part").raw(part(""));
          })};
}

std::vector<wire_event> responses_events::delta(const std::string& text) {
  // A delta of half a character has no text yet; an event for it would only cost its reader time.
  if (text.empty()) return {};
  text_ += text;
  return {event("response.output_text.delta", [&](json_writer& out) {
    put_item_ids(out);
    out.key("delta").string(text).key("logprobs").open_array().close_array();
  })};
}

void responses_events::collect_end(const core::generation_end& end) {
  text_ += end.last.text;
  end_ = end;
  end_->last = {};  // its text stands in text_ already
  // Once, so that every later object of this response says the same.
  completed_at_ = meta_.unix_now();
  const std::string_view reason = finish_reason_of(end);
  status_ = reason == "stop" ? status::completed : status::incomplete;
}

std::vector<wire_event> responses_events::finish(const core::generation_end& end) {
  // The text held back for a possible stop goes out as a delta of its own first, so that the deltas
  // together are the whole text.
  std::vector<wire_event> all = delta(end.last.text);
  core::generation_end rest = end;
  rest.last = {};
  collect_end(rest);
  all.push_back(event("response.output_text.done", [&](json_writer& out) {
    put_item_ids(out);
    out.key("text").string(text_).key("logprobs").open_array().close_array();
  }));
  all.push_back(event("response.content_part.done", [&](json_writer& out) {
    put_item_ids(out);
    out.key("part").raw(part(text_));
  }));
  all.push_back(event("response.output_item.done", [&](json_writer& out) {
    out.key("output_index").number(0).key("item").raw(item(status_name(), true));
  }));
  all.push_back(
      response_event(status_ == status::completed ? "response.completed" : "response.incomplete"));
  return all;
}

// The error event says why at once; response.failed is the terminal event that clients wait for.
std::vector<wire_event> responses_events::fail(const api_error& e) {
  status_ = status::failed;
  error_ = e;
  std::vector<wire_event> all;
  all.push_back(event("error", [&](json_writer& out) {
    out.key("code")
        .string(e.code.value_or("server_error"))
        .key("message")
        .string(e.message)
        .key("param");
    if (e.param) {
      out.string(*e.param);
    } else {
      out.null();
    }
  }));
  all.push_back(response_event("response.failed"));
  return all;
}

const char* responses_events::status_name() const {
  switch (status_) {
    case status::in_progress:
      return "in_progress";
    case status::completed:
      return "completed";
    case status::incomplete:
      return "incomplete";
    case status::failed:
      break;
  }
  return "failed";
}

// The Responses API has names of its own for what the other endpoints call prompt and completion.
std::string responses_events::usage() const {
  const auto& u = end_->usage;
  json_writer out;
  out.open_object().key("input_tokens").number(u.prompt).key("input_tokens_details").open_object();
  out.key("cached_tokens").number(u.cached).key("cache_write_tokens").number(0).close_object();
  out.key("output_tokens").number(u.completion).key("output_tokens_details").open_object();
  out.key("reasoning_tokens").number(0).close_object();
  return out.key("total_tokens").number(u.prompt + u.completion).close_object().take();
}

// Echoed, as OpenAI does: a client sees what was in force.
void responses_events::put_request_fields(json_writer& out) const {
  out.key("model").string(model_).key("instructions");
  if (fields_.instructions) {
    out.string(*fields_.instructions);
  } else {
    out.null();
  }
  put_optional(out, "max_output_tokens", fields_.max_output_tokens);
  out.key("temperature").number(sampling_.temperature).key("top_p").number(sampling_.top_p);
  out.key("presence_penalty").number(sampling_.presence_penalty);
  out.key("frequency_penalty").number(sampling_.frequency_penalty);
  out.key("store").boolean(fields_.store).key("metadata").raw(fields_.metadata);
}

/// Keys the Open Responses schema requires although this release has one value for them.
void responses_events::put_fixed_fields(json_writer& out) const {
  out.raw(R"("previous_response_id":null,"tools":[],"tool_choice":"auto","truncation":"disabled")");
  out.raw(R"("parallel_tool_calls":true,"text":{"format":{"type":"text"}})");
  out.raw(R"("top_logprobs":0,"reasoning":null,"user":null)");
  out.raw(R"("safety_identifier":null,"prompt_cache_key":null,"max_tool_calls":null)");
  out.raw(R"("background":false,"service_tier":"default")");
}

std::string responses_events::object() const {
  json_writer out;
  out.open_object().key("id").string(meta_.id).key("object").string("response");
  out.key("created_at").number(meta_.created).key("completed_at");
  if (status_ == status::completed) {
    out.number(completed_at_);
  } else {
    out.null();
  }
  // A cancelled response is incomplete, not failed: clients know response.incomplete as a last
  // event.
  out.key("status").string(status_name()).key("incomplete_details");
  if (status_ == status::incomplete) {
    const bool length = end_->reason == core::end_reason::length;
    out.open_object()
        .key("reason")
        .string(length ? "max_output_tokens" : "cancelled")
        .close_object();
  } else {
    out.null();
  }
  out.key("error");
  if (error_) {
    out.open_object().key("code").string(error_->code.value_or("server_error"));
    out.key("message").string(error_->message).close_object();
  } else {
    out.null();
  }
  put_request_fields(out);
  put_fixed_fields(out);
  out.key("output").open_array();
  if (end_) {
    out.raw(item(status_name(), true));
    // What the client has been sent of the item must not vanish from the final object.
  } else if (status_ == status::failed && begun_) {
    out.raw(item("incomplete", true));
  }
  out.close_array().key("usage");
  if (end_) {
    out.raw(usage());
  } else {
    out.null();
  }
  return out.close_object().take();
}

}  // namespace troupe::net
