#include <fmt/format.h>

#include <algorithm>

#include "config/bytes/utf8.hpp"
#include "net/api/choices_encoder.hpp"

namespace troupe::net {
namespace {

/// Code points: text_offset counts what Python counts in a str, not bytes.
std::size_t count_characters(const std::string& bytes) {
  return static_cast<std::size_t>(
      std::count_if(bytes.begin(), bytes.end(), [](char c) { return !continues_utf8(c); }));
}

class completions_encoder final : public choices_encoder {
 public:
  completions_encoder(const api_request& request, reply_meta meta)
      : choices_encoder{request, std::move(meta), "text_completion", "text_completion"},
        characters_(request.choices()) {}

  /// This endpoint has no role chunk.
  std::string begin(std::size_t) override { return ""; }

 private:
  void put_delta(json_writer& out, std::size_t i, const core::generation_delta& d) override {
    out.key("text").string(d.text).key("logprobs");
    put_logprobs(out, i, d.tokens);
  }

  void put_last(json_writer& out) override { out.key("text").string("").key("logprobs").null(); }

  void put_whole(json_writer& out, std::size_t i, const std::string& content,
                 const tokens& pieces) override {
    out.key("text").string(content).key("logprobs");
    put_logprobs(out, i, pieces);
  }

  /// Names are keys here, so they must differ. A token that is not whole characters is named by its
  /// bytes, as OpenAI does; one whose bytes another token has too, by its id.
  std::string name_of(token_id id, const std::string& bytes) const {
    if (as_ids_ || is_utf8(bytes)) return token_name(id, bytes, as_ids_);
    std::string name = "bytes:";
    for (const char b : bytes)
      name += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(b)));
    return name;
  }

  /// The likeliest tokens by name, the chosen one always among them: lm-eval compares it with the
  /// best of them.
  void put_top(json_writer& out, const core::token_piece& t) const {
    // The first token of an echoed prompt: nothing came before it that could have scored it.
    if (!t.logprob) {
      out.null();
      return;
    }
    out.open_object();
    // At most 21: searched in order.
    std::vector<std::string> names;
    const auto put = [&](token_id id, const std::string& bytes, float logprob) {
      std::string name = name_of(id, bytes);
      if (std::find(names.begin(), names.end(), name) != names.end())
        name = token_name(id, bytes, true);
      out.key(name).number(wire_logprob(logprob));
      names.push_back(std::move(name));
    };
    bool listed = false;
    for (std::size_t k = 0; k < t.top.size() && k < static_cast<std::size_t>(top_logprobs_); ++k) {
      put(t.top[k].first, meta_.token_bytes(t.top[k].first), t.top[k].second);
      listed = listed || t.top[k].first == t.token;
    }
    if (!listed) put(t.token, t.bytes, *t.logprob);
    out.close_object();
  }

  void put_logprobs(json_writer& out, std::size_t i, const tokens& pieces) {
    if (top_logprobs_ < 0) {
      out.null();
      return;
    }
    // Four arrays of equal length instead of an object a token: the endpoint's old format.
    out.open_object().key("tokens").open_array();
    for (const auto& t : pieces) out.string(name_of(t.token, t.bytes));
    out.close_array().key("token_logprobs").open_array();
    for (const auto& t : pieces) {
      if (t.logprob) {
        out.number(wire_logprob(*t.logprob));
      } else {
        out.null();
      }
    }
    out.close_array().key("top_logprobs").open_array();
    for (const auto& t : pieces) put_top(out, t);
    out.close_array().key("text_offset").open_array();
    for (const auto& t : pieces) {
      out.number(characters_[i]);
      characters_[i] += count_characters(t.bytes);
    }
    out.close_array().close_object();
  }

  /// Of each choice's tokens written so far: the next text_offset, which counts over all chunks.
  std::vector<std::size_t> characters_;
};

}  // namespace

std::unique_ptr<reply_encoder> make_completions_encoder(const api_request& request,
                                                        reply_meta meta) {
  return std::make_unique<completions_encoder>(request, std::move(meta));
}

}  // namespace troupe::net
