#include "net/api/wire_in.hpp"

#include <fmt/format.h>

#include "net/api/wire_fields.hpp"

namespace troupe::net {
namespace {

namespace dom = simdjson::dom;

/// Reads the body and hands its checked fields to `read`; whatever is thrown inside is the answer.
template <class Result, class Read>
std::variant<Result, api_error> parse(std::string_view body, endpoint_bit endpoint,
                                      const wire_limits& limits, Read read) {
  // Lives as long as the fields that point into it.
  json_document document;
  if (auto fault = document.parse_object(body, "request body")) return std::move(*fault);
  try {
    return read(wire_fields{document.object(), endpoint, limits});
  } catch (api_error& e) {
    return std::move(e);
  }
}

/// `stream_options` without a stream is a mistake at OpenAI as well.
void read_stream(const wire_fields& in, api_request& out) {
  out.stream = in.boolean("stream", false);
  const auto options = in.get("stream_options");
  if (!options) return;
  if (!out.stream) throw invalid_value("stream_options", "'stream_options' needs 'stream': true.");
  const auto flag = [&](const char* name) {
    const auto value = find(object_of(*options), name);
    if (value && !value->is_bool())
      throw invalid_value(fmt::format("stream_options.{}", name),
                          fmt::format("'stream_options.{}' must be a boolean.", name));
    return value && value->get_bool().value_unsafe();
  };
  out.include_usage = flag("include_usage");
  out.continuous_usage = flag("continuous_usage_stats");
}

/// `name` holds -1 or a count; 0 only where a prompt is scored.
std::optional<std::uint32_t> read_max_tokens(const wire_fields& in, const char* name,
                                             std::int64_t fallback, bool zero_allowed) {
  const std::int64_t value = in.integer(name, fallback);
  if (value == 0 && !zero_allowed)
    throw invalid_value(
        name, fmt::format("'{}' is 0, allowed are 1 and more, or -1 for no limit.", name));
  // No limit but the context's.
  if (value < 0) return std::nullopt;
  return static_cast<std::uint32_t>(value);
}

/// The two contradict each other: the answer could never end.
void check_min_tokens(const core::generation_request& r) {
  if (r.decode.max_tokens && r.decode.min_tokens > *r.decode.max_tokens)
    throw invalid_value("min_tokens",
                        fmt::format("'min_tokens' is {}, more than the {} tokens allowed.",
                                    r.decode.min_tokens, *r.decode.max_tokens));
}

/// Every choice runs or waits on its own, so more of them than run and wait at once could only be
/// refused later.
void read_n(const wire_fields& in, api_request& out, std::size_t prompts) {
  const auto& limits = in.limits();
  const auto n = in.integer("n", 1);
  // Cannot overflow: n has 31 bits, and a body has fewer than 2^32 prompts.
  const auto all = n * static_cast<std::int64_t>(prompts);
  const auto check = [&](std::int64_t most, const std::string& why) {
    if (n > most)
      throw invalid_value("n", fmt::format("'n' is {}, allowed are 1 to {}{}.", n, most, why));
    if (all > most)
      throw invalid_value("prompt", fmt::format("{} prompts x {} choices are {}, allowed are {}{}.",
                                                prompts, n, all, most, why));
  };
  // The limit that one request has, then the one that all have together.
  check(limits.max_n, "");
  if (limits.max_at_once > 0)
    check(limits.max_at_once, " (--max-num-seqs that run and --max-num-queued-reqs that wait)");
  out.n = static_cast<std::uint32_t>(n);
}

api_request read_chat(const wire_fields& in) {
  api_request out;
  out.kind = api_kind::chat;
  out.model = in.model();
  in.refuse_tools();
  read_stream(in, out);
  core::generation_request one = in.sampling_request();
  one.prompt = in.messages("messages");
  one.parse_special = false;
  // OpenAI's newer name wins where a client sends both.
  const char* limit = in.get("max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
  one.decode.max_tokens = read_max_tokens(in, limit, -1, false);
  check_min_tokens(one);
  const auto top = static_cast<std::int32_t>(in.integer("top_logprobs", 0));
  // OpenAI: `logprobs` switches them on, `top_logprobs` says how many more.
  if (in.boolean("logprobs", false)) {
    one.decode.top_logprobs = top;
  } else if (top > 0) {
    throw invalid_value("top_logprobs", "'top_logprobs' needs 'logprobs': true.");
  }
  out.tokens_as_ids = in.boolean("return_tokens_as_token_ids", false);
  read_n(in, out, 1);
  out.prompts.push_back(std::move(one));
  return out;
}

using prompt_variant = decltype(core::generation_request::prompt);

/// A prompt that cannot fit is refused before its tokens are read.
std::vector<token_id> read_prompt_tokens(const wire_fields& in, dom::array array,
                                         const std::string& param) {
  // The engine would find the same after reading millions of tokens.
  const std::uint32_t context = in.limits().context;
  if (context > 0 && array.size() > context)
    throw invalid_value(
        param,
        fmt::format("'{}' holds {} tokens, this model's maximum context length is {} tokens.",
                    param, array.size(), context),
        "context_length_exceeded");
  return in.tokens(array, param);
}

/// A string, an array of strings, an array of token ids, or an array of arrays of token ids.
std::vector<prompt_variant> read_prompts(const wire_fields& in, api_request& out) {
  const auto value = in.get("prompt");
  if (!value) throw invalid_value("prompt", "'prompt' is required.");
  if (const auto text = as_text(*value)) return {std::string{*text}};
  if (!value->is_array())
    throw invalid_value(
        "prompt", fmt::format("'prompt' must be a string or an array, not {}.", type_name(*value)));
  const dom::array array = array_of(*value);
  if (array.size() == 0) throw invalid_value("prompt", "'prompt' must not be an empty array.");
  // One list of tokens, not a list of prompts; a mixed one fails at the item that is no token.
  if ((*array.begin()).is_number()) return {read_prompt_tokens(in, array, "prompt")};
  // Before the prompts are read: the number alone may be too large.
  read_n(in, out, array.size());
  std::vector<prompt_variant> prompts;
  for (const dom::element item : array) {
    const std::string at = fmt::format("prompt[{}]", prompts.size());
    if (const auto text = as_text(item)) {
      prompts.emplace_back(std::string{*text});
    } else if (item.is_array()) {
      prompts.emplace_back(read_prompt_tokens(in, array_of(item), at));
    } else {
      throw invalid_value(at, fmt::format("'{}' must be a string or an array of token ids, not {}.",
                                          at, type_name(item)));
    }
  }
  return prompts;
}

api_request read_completions(const wire_fields& in) {
  api_request out;
  out.kind = api_kind::completions;
  out.model = in.model();
  read_stream(in, out);
  core::generation_request one = in.sampling_request();
  one.echo = in.boolean("echo", false);
  // OpenAI's default for this endpoint; 0 only with `echo`, where the prompt's scores are the
  // answer.
  one.decode.max_tokens = read_max_tokens(in, "max_tokens", 16, one.echo);
  check_min_tokens(one);
  one.decode.top_logprobs = static_cast<std::int32_t>(in.integer("logprobs", -1));
  out.tokens_as_ids = in.boolean("return_tokens_as_token_ids", false);
  auto prompts = read_prompts(in, out);
  read_n(in, out, prompts.size());
  // More than n would be generated and thrown away again.
  if (in.integer("best_of", 1) > static_cast<std::int64_t>(out.n))
    throw unsupported_parameter("best_of", "'best_of' larger than 'n' is not supported.");
  for (auto& prompt : prompts) {
    out.prompts.push_back(one);  // its prompt is still empty: little is copied
    out.prompts.back().prompt = std::move(prompt);
  }
  return out;
}

}  // namespace

const char* prompt_field(api_kind kind) {
  return kind == api_kind::chat ? "messages" : kind == api_kind::completions ? "prompt" : "input";
}

// Once, at the start: configuration and model do not change.
wire_limits limits_of(const runtime_config& config, const core::model_card& card) {
  wire_limits limits{config.served_model_names,
                     card.vocab,
                     config.max_n,
                     std::uint64_t{config.max_num_seqs} + config.max_num_queued_reqs,
                     card.model_context,
                     config.scheduling_policy == "priority"};
  if (limits.models.empty()) limits.models.push_back(card.name);
  return limits;
}

std::variant<api_request, api_error> parse_chat(std::string_view body, const wire_limits& limits) {
  return parse<api_request>(body, on_chat, limits, read_chat);
}

std::variant<api_request, api_error> parse_completions(std::string_view body,
                                                       const wire_limits& limits) {
  return parse<api_request>(body, on_completions, limits, read_completions);
}

std::variant<tokenize_request, api_error> parse_tokenize(std::string_view body,
                                                         const wire_limits& limits) {
  return parse<tokenize_request>(body, on_tokenize, limits, [](const wire_fields& in) {
    tokenize_request out;
    in.model();
    out.source = in.text_request();
    out.return_token_strs = in.boolean("return_token_strs", false);
    if (in.get("messages")) {
      out.source.prompt = in.messages("messages");
      out.source.parse_special = false;
      return out;
    }
    const auto prompt = in.get("prompt");
    if (!prompt || !prompt->is_string())
      throw invalid_value("prompt", "'prompt' must be a string, unless 'messages' is given.");
    out.source.prompt = std::string{*as_text(*prompt)};
    return out;
  });
}

std::variant<std::vector<token_id>, api_error> parse_detokenize(std::string_view body,
                                                                const wire_limits& limits) {
  return parse<std::vector<token_id>>(body, on_detokenize, limits, [](const wire_fields& in) {
    in.model();
    const auto tokens = in.get("tokens");
    if (!tokens) throw invalid_value("tokens", "'tokens' is required.");
    return in.tokens(array_of(*tokens), "tokens");
  });
}

}  // namespace troupe::net
