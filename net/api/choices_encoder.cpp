#include "net/api/choices_encoder.hpp"

#include <utility>

namespace troupe::net {

choices_encoder::choices_encoder(const api_request& request, reply_meta meta,
                                 const char* chunk_object, const char* whole_object)
    : meta_{std::move(meta)},
      as_ids_{request.tokens_as_ids},
      top_logprobs_{request.prompts.front().decode.top_logprobs},
      chunk_object_{chunk_object},
      whole_object_{whole_object},
      model_{request.model},
      include_usage_{request.include_usage},
      continuous_usage_{request.continuous_usage},
      n_{request.n},
      tallies_{request.choices()},
      collected_{request.choices()} {}

std::string choices_encoder::text(std::size_t i, const core::generation_delta& d) {
  // Counted also when nothing is sent: a delta may hold bytes of a character that is not whole yet.
  tallies_[i].completion_tokens = d.completion_tokens;
  if (d.text.empty() && d.tokens.empty()) return "";
  return chunk(i, [&](json_writer& out) {
    put_delta(out, i, d);
    out.key("finish_reason").null();
  });
}

// Text that was held back for a possible stop goes out first, in a chunk of its own.
std::string choices_encoder::end(std::size_t i, const core::generation_end& e) {
  std::string frames = text(i, e.last);
  take_usage(i, e);
  // Timings of this choice alone: in a stream the others may still run.
  return frames + chunk(
                      i,
                      [&](json_writer& out) {
                        put_last(out);
                        put_finish(out, e);
                      },
                      timings_json({tallies_[i]}));
}

// The usage chunk has no choices, as in OpenAI's streams: clients tell it by that.
std::string choices_encoder::close() {
  std::string frames;
  if (include_usage_) {
    json_writer out;
    put_head(out, meta_, chunk_object_, model_);
    out.key("choices")
        .open_array()
        .close_array()
        .key("usage")
        .raw(usage_json(tallies_, n_))
        .close_object();
    frames = sse_event(out.take());
  }
  return frames + sse_done;
}

// A broken stream ends with [DONE] as well: clients take a missing one for a cut connection.
std::string choices_encoder::fail(const api_error& e) {
  return sse_event(error_body(e)) + sse_done;
}

void choices_encoder::collect(std::size_t i, const core::generation_delta& d) {
  auto& c = collected_[i];
  c.text += d.text;
  c.pieces.insert(c.pieces.end(), d.tokens.begin(), d.tokens.end());
}

// The end carries text and tokens that no delta has had.
void choices_encoder::collect_end(std::size_t i, const core::generation_end& e) {
  collect(i, e.last);
  take_usage(i, e);
  collected_[i].end = e;
}

std::string choices_encoder::whole() {
  json_writer out;
  put_head(out, meta_, whole_object_, model_);
  out.key("choices").open_array();
  for (std::size_t i = 0; i < collected_.size(); ++i) {
    const auto& c = collected_[i];
    out.open_object().key("index").number(i);
    put_whole(out, i, c.text, c.pieces);
    put_finish(out, c.end);
    out.close_object();
  }
  out.close_array().key("usage").raw(usage_json(tallies_, n_));
  return out.key("timings").raw(timings_json(tallies_)).close_object().take();
}

std::string choices_encoder::close_chunk(json_writer out, const std::string& timings) {
  // With include_usage every other chunk says null; without it the key is absent.
  // vLLM's continuous_usage_stats: the sums so far, of all choices, in each chunk.
  if (continuous_usage_) {
    out.key("usage").raw(usage_json(tallies_, n_));
  } else if (include_usage_) {
    out.key("usage").null();
  }
  if (!timings.empty()) out.key("timings").raw(timings);
  return sse_event(out.close_object().take());
}

void choices_encoder::take_usage(std::size_t i, const core::generation_end& e) {
  tallies_[i] = {e.usage.prompt, e.usage.cached, e.usage.completion, e.times};
}

}  // namespace troupe::net
