#include "net/reply_encoder.hpp"

namespace troupe::net {
namespace {

class chat_encoder final : public reply_encoder {
 public:
  chat_encoder(const api_request& request, reply_meta meta)
      : meta_{std::move(meta)}, model_{request.model}, include_usage_{request.include_usage},
        continuous_usage_{request.continuous_usage}, as_ids_{request.tokens_as_ids}, n_{request.n},
        top_logprobs_{request.choices.front().top_logprobs}, tallies_{request.choices.size()},
        collected_{request.choices.size()} {}

  std::string begin(std::size_t i) override {
    return chunk(i, [](json_writer& out) {
      out.key("delta").open_object().key("role").string("assistant").key("content").string("").close_object();
      out.key("logprobs").null().key("finish_reason").null();
    });
  }

  std::string text(std::size_t i, const core::generation_delta& d) override {
    tallies_[i].completion_tokens = d.completion_tokens;
    if (d.text.empty() && d.tokens.empty()) return "";
    return chunk(i, [&](json_writer& out) {
      out.key("delta").open_object().key("content").string(d.text).close_object();
      out.key("logprobs");
      put_logprobs(out, d.tokens);
      out.key("finish_reason").null();
    });
  }

  std::string end(std::size_t i, const core::generation_end& e) override {
    std::string frames = text(i, e.last);
    take_usage(i, e);
    return frames + chunk(i, [&](json_writer& out) {
      out.key("delta").open_object().close_object().key("logprobs").null();
      put_finish(out, e);
    }, timings_json({tallies_[i]}));
  }

  std::string close() override {
    std::string frames;
    if (include_usage_) {
      json_writer out;
      put_head(out, meta_, "chat.completion.chunk", model_);
      out.key("choices").open_array().close_array().key("usage").raw(usage_json(tallies_, n_)).close_object();
      frames = sse_event(out.take());
    }
    return frames + sse_done;
  }

  std::string fail(const api_error& e) override { return sse_event(error_body(e)) + sse_done; }

  void collect(std::size_t i, const core::generation_delta& d) override {
    auto& c = collected_[i];
    c.text += d.text;
    c.tokens.insert(c.tokens.end(), d.tokens.begin(), d.tokens.end());
  }

  void collect_end(std::size_t i, const core::generation_end& e) override {
    collect(i, e.last);
    take_usage(i, e);
    collected_[i].end = e;
  }

  std::string whole() override {
    json_writer out;
    put_head(out, meta_, "chat.completion", model_);
    out.key("choices").open_array();
    for (std::size_t i = 0; i < collected_.size(); ++i) {
      const auto& c = collected_[i];
      out.open_object().key("index").number(i).key("message").open_object();
      out.key("role").string("assistant").key("content").string(c.text).key("refusal").null().close_object();
      out.key("logprobs");
      put_logprobs(out, c.tokens);
      put_finish(out, c.end);
      out.close_object();
    }
    out.close_array().key("usage").raw(usage_json(tallies_, n_));
    return out.key("timings").raw(timings_json(tallies_)).close_object().take();
  }

 private:
  struct collected {
    std::string text;
    std::vector<core::token_piece> tokens;
    core::generation_end end;
  };

  template <class Members>
  std::string chunk(std::size_t i, Members members, const std::string& timings = "") {
    json_writer out;
    put_head(out, meta_, "chat.completion.chunk", model_);
    out.key("choices").open_array().open_object().key("index").number(i);
    members(out);
    out.close_object().close_array();
    if (continuous_usage_) {
      out.key("usage").raw(usage_json(tallies_, n_));
    } else if (include_usage_) {
      out.key("usage").null();
    }
    if (!timings.empty()) out.key("timings").raw(timings);
    return sse_event(out.close_object().take());
  }

  void take_usage(std::size_t i, const core::generation_end& e) {
    tallies_[i] = {e.usage.prompt, e.usage.cached, e.usage.completion, e.times};
  }

  void put_token(json_writer& out, token_id id, const std::string& bytes, float logprob) const {
    out.key("token").string(token_name(id, bytes, as_ids_)).key("logprob").number(wire_logprob(logprob));
    out.key("bytes").open_array();
    for (const char b : bytes) out.number(static_cast<int>(static_cast<unsigned char>(b)));
    out.close_array();
  }

  void put_logprobs(json_writer& out, const std::vector<core::token_piece>& tokens) const {
    if (top_logprobs_ < 0) {
      out.null();
      return;
    }
    out.open_object().key("content").open_array();
    for (const auto& t : tokens) {
      out.open_object();
      put_token(out, t.token, t.bytes, t.logprob.value_or(0));
      out.key("top_logprobs").open_array();
      for (std::size_t k = 0; k < t.top.size() && k < static_cast<std::size_t>(top_logprobs_); ++k) {
        out.open_object();
        put_token(out, t.top[k].first, meta_.token_bytes(t.top[k].first), t.top[k].second);
        out.close_object();
      }
      out.close_array().close_object();
    }
    out.close_array().key("refusal").null().close_object();
  }

  reply_meta meta_;
  std::string model_;
  bool include_usage_, continuous_usage_, as_ids_;
  std::uint32_t n_;
  std::int32_t top_logprobs_;
  std::vector<choice_tally> tallies_;
  std::vector<collected> collected_;
};

}  // namespace

std::unique_ptr<reply_encoder> make_chat_encoder(const api_request& request, reply_meta meta) {
  return std::make_unique<chat_encoder>(request, std::move(meta));
}

}  // namespace troupe::net
