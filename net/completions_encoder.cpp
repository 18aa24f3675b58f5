#include <algorithm>

#include "net/reply_encoder.hpp"

namespace troupe::net {
namespace {

std::size_t count_characters(const std::string& bytes) {
  return static_cast<std::size_t>(std::count_if(bytes.begin(), bytes.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

class completions_encoder final : public reply_encoder {
 public:
  completions_encoder(const api_request& request, reply_meta meta)
      : meta_{std::move(meta)}, model_{request.model}, include_usage_{request.include_usage},
        continuous_usage_{request.continuous_usage}, as_ids_{request.tokens_as_ids}, n_{request.n},
        top_logprobs_{request.choices.front().top_logprobs}, tallies_{request.choices.size()},
        collected_{request.choices.size()} {}

  std::string begin(std::size_t) override { return ""; }

  std::string text(std::size_t i, const core::generation_delta& d) override {
    tallies_[i].completion_tokens = d.completion_tokens;
    if (d.text.empty() && d.tokens.empty()) return "";
    return chunk(i, [&](json_writer& out) {
      out.key("text").string(d.text).key("logprobs");
      put_logprobs(out, i, d.tokens);
      out.key("finish_reason").null();
    });
  }

  std::string end(std::size_t i, const core::generation_end& e) override {
    std::string frames = text(i, e.last);
    take_usage(i, e);
    return frames + chunk(i, [&](json_writer& out) {
      out.key("text").string("").key("logprobs").null();
      put_finish(out, e);
    }, timings_json({tallies_[i]}));
  }

  std::string close() override {
    std::string frames;
    if (include_usage_) {
      json_writer out;
      put_head(out, meta_, "text_completion", model_);
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
    put_head(out, meta_, "text_completion", model_);
    out.key("choices").open_array();
    for (std::size_t i = 0; i < collected_.size(); ++i) {
      const auto& c = collected_[i];
      out.open_object().key("index").number(i).key("text").string(c.text).key("logprobs");
      put_logprobs(out, i, c.tokens);
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
    std::size_t characters = 0;   ///< of the tokens written so far: the next text_offset
    core::generation_end end;
  };

  template <class Members>
  std::string chunk(std::size_t i, Members members, const std::string& timings = "") {
    json_writer out;
    put_head(out, meta_, "text_completion", model_);
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

  /// The likeliest tokens by name, the chosen one among them. Broken bytes may share a name: the likelier stays.
  void put_top(json_writer& out, const core::token_piece& t) const {
    if (!t.logprob) {
      out.null();
      return;
    }
    out.open_object();
    std::vector<std::string> names;
    const auto put = [&](token_id id, const std::string& bytes, float logprob) {
      std::string name;
      append_json_escaped(name, token_name(id, bytes, as_ids_));
      if (std::find(names.begin(), names.end(), name) != names.end()) return;
      out.raw("\"" + name + "\":" + json_writer{}.number(wire_logprob(logprob)).text());
      names.push_back(std::move(name));
    };
    for (std::size_t k = 0; k < t.top.size() && k < static_cast<std::size_t>(top_logprobs_); ++k)
      put(t.top[k].first, meta_.token_bytes(t.top[k].first), t.top[k].second);
    put(t.token, t.bytes, *t.logprob);
    out.close_object();
  }

  void put_logprobs(json_writer& out, std::size_t i, const std::vector<core::token_piece>& tokens) {
    if (top_logprobs_ < 0) {
      out.null();
      return;
    }
    out.open_object().key("tokens").open_array();
    for (const auto& t : tokens) out.string(token_name(t.token, t.bytes, as_ids_));
    out.close_array().key("token_logprobs").open_array();
    for (const auto& t : tokens) {
      if (t.logprob) {
        out.number(wire_logprob(*t.logprob));
      } else {
        out.null();
      }
    }
    out.close_array().key("top_logprobs").open_array();
    for (const auto& t : tokens) put_top(out, t);
    out.close_array().key("text_offset").open_array();
    for (const auto& t : tokens) {
      out.number(collected_[i].characters);
      collected_[i].characters += count_characters(t.bytes);
    }
    out.close_array().close_object();
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

std::unique_ptr<reply_encoder> make_completions_encoder(const api_request& request, reply_meta meta) {
  return std::make_unique<completions_encoder>(request, std::move(meta));
}

}  // namespace troupe::net
