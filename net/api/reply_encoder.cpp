#include "net/api/reply_encoder.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::net {
namespace {

double milliseconds(std::uint64_t us) {
  return static_cast<double>(us) / 1000.0;
}

double per_second(std::uint64_t count, std::uint64_t us) {
  return us == 0 ? 0.0 : static_cast<double>(count) * 1e6 / static_cast<double>(us);
}

}  // namespace

std::unique_ptr<reply_encoder> make_encoder(const api_request& request, reply_meta meta) {
  switch (request.kind) {
    case api_kind::chat:
      return make_chat_encoder(request, std::move(meta));
    case api_kind::completions:
      return make_completions_encoder(request, std::move(meta));
    case api_kind::responses:
      break;
  }
  return make_responses_encoder(request, std::move(meta));
}

std::string sse_event(const std::string& json) {
  return "data: " + json + "\n\n";
}

// The Responses API names its events; chat and completions do not.
std::string sse_event(const std::string& type, const std::string& json) {
  return "event: " + type + "\n" + sse_event(json);
}

std::string usage_json(const std::vector<choice_tally>& choices, std::uint32_t n) {
  std::uint64_t prompt = 0, cached = 0, completion = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    completion += choices[i].completion_tokens;
    // The n choices of a prompt share it, so it counts once.
    if (i % n != 0) continue;
    prompt += choices[i].prompt_tokens;
    cached += choices[i].cached_tokens;
  }
  json_writer out;
  out.open_object().key("prompt_tokens").number(prompt).key("completion_tokens").number(completion);
  out.key("total_tokens").number(prompt + completion);
  out.key("prompt_tokens_details").open_object().key("cached_tokens").number(cached).close_object();
  out.key("completion_tokens_details")
      .open_object()
      .key("reasoning_tokens")
      .number(0)
      .close_object();
  return out.close_object().take();
}

/// The names of llama.cpp's server, which several user interfaces show. The choices decode at the
/// same time, so their tokens add up and their times do not.
std::string timings_json(const std::vector<choice_tally>& choices) {
  const choice_tally& first = choices.front();
  std::uint64_t predicted = 0, intervals = 0, decode_us = 0;
  for (const auto& c : choices) {
    predicted += c.completion_tokens;
    // The first token comes out of the prefill: what is timed are the intervals behind it.
    intervals += c.completion_tokens > 0 ? c.completion_tokens - 1 : 0;
    decode_us = std::max(decode_us, c.times.decode_us);
  }
  // What was computed, as there: without the part that came from the prefix cache.
  const std::uint64_t prompt_n =
      first.prompt_tokens - std::min(first.prompt_tokens, first.cached_tokens);
  json_writer out;
  out.open_object().key("cache_n").number(first.cached_tokens).key("prompt_n").number(prompt_n);
  out.key("prompt_ms").number(milliseconds(first.times.prefill_us));
  out.key("prompt_per_second").number(per_second(prompt_n, first.times.prefill_us));
  out.key("predicted_n").number(predicted).key("predicted_ms").number(milliseconds(decode_us));
  out.key("predicted_per_second").number(per_second(intervals, decode_us));
  return out.close_object().take();
}

void put_finish(json_writer& out, const core::generation_end& end) {
  out.key("finish_reason").string(finish_reason_of(end)).key("stop_reason");
  // As vLLM: which of the request's own stops it was; null for the model's end token.
  if (end.reason == core::end_reason::stop_string && end.stop_string) {
    out.string(*end.stop_string);
  } else if (end.reason == core::end_reason::stop_token && end.stop_token) {
    out.number(*end.stop_token);
  } else {
    out.null();
  }
}

// OpenAI's value for a token that cannot be sampled.
float wire_logprob(float value) {
  return std::isfinite(value) ? value : -9999.0f;
}

std::string token_name(token_id id, const std::string& bytes, bool as_id) {
  // vLLM's form of return_tokens_as_token_ids.
  return as_id ? "token_id:" + std::to_string(id) : bytes;
}

void put_head(json_writer& out, const reply_meta& meta, const char* object,
              const std::string& model) {
  out.open_object().key("id").string(meta.id).key("object").string(object);
  out.key("created").number(meta.created).key("model").string(model);
  out.key("system_fingerprint").string("fp_troupe_" TROUPE_VERSION);
}

}  // namespace troupe::net
