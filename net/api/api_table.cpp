#include "net/api/api_table.hpp"

#include <array>
#include <limits>

namespace troupe::net {
namespace {

constexpr unsigned C = on_chat, P = on_completions, R = on_responses, T = on_tokenize,
                   D = on_detokenize;
constexpr unsigned generating = C | P | R;
constexpr double any_low = 1, any_high = 0;  // no range
// Counts become 32-bit numbers; the table's range makes each of those casts safe.
constexpr double int_max = std::numeric_limits<std::int32_t>::max();
// 2^63 - 1 is no double; the next one, 2^63, is, but as_integer has refused it before.
constexpr double seed_max = 9223372036854775807.0;
using enum field_type;
using enum field_level;

// Grouped by what becomes of them: read, refused unless default, read in part, ignored. A name may
// stand twice, for different endpoints.
constexpr std::array table{
    api_field{"model", generating | T | D, text, any_low, any_high, "", implemented},
    api_field{"messages", C | T, list, any_low, any_high, "", implemented},
    api_field{"prompt", P | T, any, any_low, any_high, "", implemented},
    api_field{"tokens", D, list, any_low, any_high, "", implemented},
    api_field{"input", R, any, any_low, any_high, "", implemented},
    api_field{"instructions", R, text, any_low, any_high, "", implemented},
    api_field{"max_completion_tokens", C, integer, -1, int_max, "", implemented},
    api_field{"max_tokens", C | P, integer, -1, int_max, "", implemented},
    api_field{"max_output_tokens", R, integer, 1, int_max, "", implemented},
    api_field{"temperature", generating, number, 0, 2, "1", implemented},
    api_field{"top_p", generating, number, 0, 1, "1", implemented},
    api_field{"min_p", generating, number, 0, 1, "0", implemented},
    api_field{"top_k", generating, integer, -1, int_max, "0", implemented},
    api_field{"n", C | P, integer, 1, int_max, "1", implemented},
    api_field{"repetition_penalty", generating, number, 0, 10, "1",
              implemented},  // 0 itself is refused
    api_field{"presence_penalty", generating, number, -2, 2, "0", implemented},
    api_field{"frequency_penalty", generating, number, -2, 2, "0", implemented},
    api_field{"logit_bias", generating, object, any_low, any_high, "{}", implemented},
    api_field{"stop_boundary", generating, text, any_low, any_high, "\"none\"", implemented},
    api_field{"stop_confidence", generating, object, any_low, any_high, "", implemented},
    api_field{"stop_repetition", generating, object, any_low, any_high, "", implemented},
    api_field{"stop", generating, text_or_list, any_low, any_high, "", implemented},
    api_field{"stream", generating, boolean, any_low, any_high, "false", implemented},
    api_field{"stream_options", generating, object, any_low, any_high, "", implemented},
    api_field{"seed", generating, integer, -seed_max, seed_max, "", implemented},
    api_field{"logprobs", C, boolean, any_low, any_high, "false", implemented},
    api_field{"logprobs", P, integer, 0, 20, "", implemented},
    api_field{"top_logprobs", C, integer, 0, 20, "0", implemented},
    api_field{"echo", P, boolean, any_low, any_high, "false", implemented},
    api_field{"min_tokens", generating, integer, 0, int_max, "0", implemented},
    api_field{"ignore_eos", generating, boolean, any_low, any_high, "false", implemented},
    api_field{"stop_token_ids", generating, list, any_low, any_high, "", implemented},
    api_field{"allowed_token_ids", generating, list, any_low, any_high, "", implemented},
    api_field{"bad_words", generating, list, any_low, any_high, "[]", implemented},
    api_field{"include_stop_str_in_output", generating, boolean, any_low, any_high, "false",
              implemented},
    api_field{"skip_special_tokens", generating, boolean, any_low, any_high, "true", implemented},
    api_field{"add_special_tokens", generating | T, boolean, any_low, any_high, "", implemented},
    api_field{"parse_special", P | T, boolean, any_low, any_high, "true", implemented},
    api_field{"add_generation_prompt", C | T, boolean, any_low, any_high, "true", implemented},
    api_field{"priority", generating, integer, -int_max, int_max, "0", implemented},
    api_field{"deadlines", generating, object, any_low, any_high, "", implemented},
    api_field{"cache_salt", generating, text, any_low, any_high, "", implemented},
    api_field{"on_disconnect", generating, text, any_low, any_high, "", implemented},
    api_field{"return_tokens_as_token_ids", C | P, boolean, any_low, any_high, "false",
              implemented},
    api_field{"return_token_strs", T, boolean, any_low, any_high, "false", implemented},
    api_field{"store", C | R, boolean, any_low, any_high, "", implemented},
    api_field{"metadata", generating, object, any_low, any_high, "", implemented},

    // Refused unless they hold their default, which SDKs write out without being asked. What would
    // change the answer must not be dropped silently.
    api_field{"response_format", C | P, object, any_low, any_high, "{\"type\":\"text\"}", rejected},
    api_field{"audio", C, any, any_low, any_high, "", rejected},
    api_field{"web_search_options", C, any, any_low, any_high, "", rejected},
    api_field{"modalities", C, list, any_low, any_high, "[\"text\"]", rejected},
    api_field{"truncation", generating, text, any_low, any_high, "\"disabled\"", rejected},
    api_field{"truncate_prompt_tokens", generating, integer, any_low, any_high, "", rejected},
    api_field{"prompt_logprobs", generating, integer, any_low, any_high, "", rejected},
    api_field{"suffix", P, text, any_low, any_high, "\"\"", rejected},
    api_field{"chat_template", C | T, text, any_low, any_high, "", rejected},
    api_field{"continue_final_message", C | T, boolean, any_low, any_high, "false", rejected},
    api_field{"return_token_ids", generating, boolean, any_low, any_high, "false", rejected},
    api_field{"use_beam_search", generating, boolean, any_low, any_high, "false", rejected},
    api_field{"structured_outputs", generating, any, any_low, any_high, "", rejected},
    api_field{"logits_processors", generating, any, any_low, any_high, "[]", rejected},
    // An answer that must have a form: a caller relies on it, so it is never ignored. The names of
    // vLLM (guided_*), llama.cpp (grammar, json_schema) and SGLang (regex, ebnf).
    api_field{"guided_json", generating, any, any_low, any_high, "", rejected},
    api_field{"guided_regex", generating, any, any_low, any_high, "\"\"", rejected},
    api_field{"guided_choice", generating, any, any_low, any_high, "", rejected},
    api_field{"guided_grammar", generating, any, any_low, any_high, "\"\"", rejected},
    api_field{"structural_tag", generating, any, any_low, any_high, "\"\"", rejected},
    api_field{"grammar", generating, any, any_low, any_high, "\"\"", rejected},
    api_field{"json_schema", generating, any, any_low, any_high, "", rejected},
    api_field{"regex", generating, any, any_low, any_high, "\"\"", rejected},
    api_field{"ebnf", generating, any, any_low, any_high, "\"\"", rejected},
    api_field{"functions", C, list, any_low, any_high, "[]", rejected},
    api_field{"stream_interval", generating, integer, any_low, any_high, "1", rejected},
    api_field{"top_logprobs", R, integer, 0, 20, "0", rejected},
    api_field{"background", R, boolean, any_low, any_high, "false", rejected},
    api_field{"conversation", R, any, any_low, any_high, "", rejected},
    api_field{"prompt", R, any, any_low, any_high, "", rejected},
    api_field{"stream_id", R, any, any_low, any_high, "", rejected},
    api_field{"generate", R, boolean, any_low, any_high, "true", rejected},

    // Known in part: wire_in and wire_responses refuse the rest by value.
    api_field{"best_of", P, integer, 1, int_max, "", implemented},          // only as large as n
    api_field{"tools", C | R, list, any_low, any_high, "[]", implemented},  // only empty or unused
    api_field{"text", R, object, any_low, any_high, "", implemented},       // only format text
    api_field{"tool_choice", C | R, any, any_low, any_high, "", implemented},  // only none and auto
    api_field{"function_call", C, any, any_low, any_high, "", implemented},    // the same
    api_field{"previous_response_id", R, text, any_low, any_high, "", implemented},  // never found

    // Accepted whatever they hold: they say who asks or where to run, or tune what is not here.
    api_field{"user", generating, any, any_low, any_high, "", ignored},
    api_field{"request_id", generating, any, any_low, any_high, "", ignored},
    api_field{"parallel_tool_calls", C | R, any, any_low, any_high, "", ignored},
    api_field{"service_tier", C | R, any, any_low, any_high, "", ignored},
    api_field{"safety_identifier", C | R, any, any_low, any_high, "", ignored},
    api_field{"prompt_cache_key", C | R, any, any_low, any_high, "", ignored},
    api_field{"reasoning_effort", C, any, any_low, any_high, "", ignored},
    api_field{"reasoning", R, any, any_low, any_high, "", ignored},
    api_field{"verbosity", C, any, any_low, any_high, "", ignored},
    api_field{"prediction", C, any, any_low, any_high, "", ignored},
    api_field{"include", R, any, any_low, any_high, "", ignored},
    api_field{"max_tool_calls", R, any, any_low, any_high, "", ignored},
    api_field{"spaces_between_special_tokens", generating, any, any_low, any_high, "", ignored},
    api_field{"chat_template_kwargs", C | T, any, any_low, any_high, "", ignored},
    api_field{"documents", C, any, any_low, any_high, "", ignored},
    api_field{"n_predict", generating, any, any_low, any_high, "", ignored},
    api_field{"repeat_penalty", generating, any, any_low, any_high, "", ignored},
    api_field{"cache_prompt", generating, any, any_low, any_high, "", ignored},
    api_field{"id_slot", generating, any, any_low, any_high, "", ignored},
};

}  // namespace

std::span<const api_field> api_fields() {
  return table;
}

}  // namespace troupe::net
