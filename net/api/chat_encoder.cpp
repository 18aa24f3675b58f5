#include "net/api/choices_encoder.hpp"

namespace troupe::net {
namespace {

class chat_encoder final : public choices_encoder {
 public:
  chat_encoder(const api_request& request, reply_meta meta)
      : choices_encoder{request, std::move(meta), "chat.completion.chunk", "chat.completion"} {}

  /// OpenAI's first chunk: the role and an empty content, before any token. Clients that join
  /// deltas take the role from it alone.
  std::string begin(std::size_t i) override {
    return chunk(i, [](json_writer& out) {
      out.key("delta")
          .open_object()
          .key("role")
          .string("assistant")
          .key("content")
          .string("")
          .close_object();
      out.key("logprobs").null().key("finish_reason").null();
    });
  }

 private:
  void put_delta(json_writer& out, std::size_t, const core::generation_delta& d) override {
    out.key("delta").open_object().key("content").string(d.text).close_object().key("logprobs");
    put_logprobs(out, d.tokens);
  }

  /// An empty delta: the finish reason never shares a chunk with text.
  void put_last(json_writer& out) override {
    out.key("delta").open_object().close_object().key("logprobs").null();
  }

  void put_whole(json_writer& out, std::size_t, const std::string& content,
                 const tokens& pieces) override {
    out.key("message").open_object().key("role").string("assistant").key("content").string(content);
    out.key("refusal").null().close_object().key("logprobs");
    put_logprobs(out, pieces);
  }

  /// `bytes` beside `token`: a token may be a part of a character, which a JSON string cannot hold.
  void put_token(json_writer& out, token_id id, const std::string& bytes, float logprob) const {
    out.key("token")
        .string(token_name(id, bytes, as_ids_))
        .key("logprob")
        .number(wire_logprob(logprob));
    out.key("bytes").open_array();
    for (const char b : bytes) out.number(static_cast<int>(static_cast<unsigned char>(b)));
    out.close_array();
  }

  void put_logprobs(json_writer& out, const tokens& pieces) const {
    if (top_logprobs_ < 0) {
      out.null();
      return;
    }
    out.open_object().key("content").open_array();
    for (const auto& t : pieces) {
      out.open_object();
      put_token(out, t.token, t.bytes, t.logprob.value_or(0));
      out.key("top_logprobs").open_array();
      for (std::size_t k = 0; k < t.top.size() && k < static_cast<std::size_t>(top_logprobs_);
           ++k) {
        out.open_object();
        put_token(out, t.top[k].first, meta_.token_bytes(t.top[k].first), t.top[k].second);
        out.close_object();
      }
      out.close_array().close_object();
    }
    // `refusal` is a member of OpenAI's logprobs object, too, not only of the message.
    out.close_array().key("refusal").null().close_object();
  }
};

}  // namespace

std::unique_ptr<reply_encoder> make_chat_encoder(const api_request& request, reply_meta meta) {
  return std::make_unique<chat_encoder>(request, std::move(meta));
}

}  // namespace troupe::net
