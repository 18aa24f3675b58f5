#include "net/http/token_tools.hpp"

#include <stdexcept>

#include "net/json/json_writer.hpp"

namespace troupe::net {
namespace {

http_reply json_reply(json_writer& out) {
  return {.status = 200, .headers = {}, .body = out.take()};
}

}  // namespace

// Answers in vLLM's form, as do the two below.
http_reply tokenize(std::string_view body, const core::generation_engine& engine,
                    const wire_limits& limits) {
  auto parsed = parse_tokenize(body, limits);
  if (const auto* e = std::get_if<api_error>(&parsed)) return error_reply(*e);
  const auto& request = std::get<tokenize_request>(parsed);
  std::vector<token_id> tokens;
  try {
    tokens = engine.encode(request.source);
  } catch (const std::invalid_argument& e) {  // the chat template refuses these messages
    return error_reply(invalid_value("messages", e.what()));
  }
  json_writer out;
  out.open_object()
      .key("count")
      .number(tokens.size())
      .key("max_model_len")
      .number(engine.card().context);
  out.key("tokens").open_array();
  for (const token_id t : tokens) out.number(t);
  out.close_array().key("token_strs");
  if (request.return_token_strs) {
    out.open_array();
    for (const token_id t : tokens) out.string(engine.token_bytes(t));
    out.close_array();
  } else {
    out.null();
  }
  out.close_object();
  return json_reply(out);
}

http_reply detokenize(std::string_view body, const core::generation_engine& engine,
                      const wire_limits& limits) {
  auto parsed = parse_detokenize(body, limits);
  if (const auto* e = std::get_if<api_error>(&parsed)) return error_reply(*e);
  json_writer out;
  out.open_object()
      .key("prompt")
      .string(engine.decode(std::get<std::vector<token_id>>(parsed)))
      .close_object();
  return json_reply(out);
}

http_reply tokenizer_info(const core::generation_engine& engine) {
  const auto& card = engine.card();
  json_writer out;
  // The name under which Hugging Face's libraries have byte-level BPE; these models have no padding
  // token, so the end token stands for it.
  out.open_object().key("tokenizer_class").string("GPT2Tokenizer");
  out.key("bos_token")
      .string(card.bos)
      .key("eos_token")
      .string(card.eos)
      .key("pad_token")
      .string(card.eos);
  out.key("chat_template")
      .string(card.chat_template)
      .key("model_max_length")
      .number(card.context)
      .close_object();
  return json_reply(out);
}

}  // namespace troupe::net
