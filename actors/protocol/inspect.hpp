// How the values of actors/protocol/engine.hpp are written and read by CAF's serialisers, so that
// an engine may live in another process. Each type lists its members once, by a structured binding:
// a member that is added and forgotten here does not compile. What is read may come from a peer of
// another build or a broken stream: sizes are never trusted (elements are read one by one until the
// bytes end), and an enum's value beyond its last is an error.
#pragma once
#include <algorithm>
#include <bit>
#include <caf/error.hpp>
#include <caf/none.hpp>
#include <caf/sec.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "actors/api/generation.hpp"

namespace troupe::protocol::wire {

/// The greatest value of each enum that travels.
template <class Enum>
inline constexpr Enum last_of = [] { static_assert(sizeof(Enum) == 0, "name the last value"); }();
template <>
inline constexpr core::end_reason last_of<core::end_reason> = core::end_reason::refused;
template <>
inline constexpr core::refusal last_of<core::refusal> = core::refusal::invalid_token;
template <>
inline constexpr stop_boundary last_of<stop_boundary> = stop_boundary::line;
template <>
inline constexpr on_disconnect last_of<on_disconnect> = on_disconnect::keep_prefix;

/// One value after another through `f`, which either only reads them or only writes them.
template <class Inspector>
struct codec {
  static constexpr bool loads = Inspector::writes_state;
  Inspector& f;

  caf::error apply() { return caf::none; }
  template <class First, class... Rest>
  caf::error apply(First& first, Rest&... rest) {
    if (auto failed = one(first)) return failed;
    return apply(rest...);
  }

  template <class T>
  caf::error one(T& x) {
    if constexpr (std::is_enum_v<T>)
      return enumerator(x);
    else if constexpr (std::is_same_v<T, float>)
      return bits(x);
    else if constexpr (std::is_same_v<T, std::string>)
      return text(x);
    else
      return f(x);  // numbers, strings, and what has an inspect of its own
  }
  /// CAF 0.17 never comes back from packing a float that is not finite.
  caf::error bits(float& x) {
    auto pattern = std::bit_cast<std::uint32_t>(x);
    if (auto failed = f(pattern)) return failed;
    if constexpr (loads) x = std::bit_cast<float>(pattern);
    return caf::none;
  }
  /// In parts, so that a size that promises more than there is takes no memory for it.
  caf::error text(std::string& x) {
    constexpr std::size_t part = 65'536;
    auto size = x.size();
    if (auto failed = f.begin_sequence(size)) return failed;
    if constexpr (loads) x.clear();
    for (std::size_t done = 0; done < size;) {
      const auto count = std::min(part, size - done);
      if constexpr (loads) x.resize(done + count);
      if (auto failed = f.apply_raw(count, x.data() + done)) return failed;
      done += count;
    }
    return f.end_sequence();
  }
  template <class T>
  caf::error enumerator(T& x) {
    auto value = static_cast<std::underlying_type_t<T>>(x);
    if (auto failed = f(value)) return failed;
    if (value > static_cast<std::underlying_type_t<T>>(last_of<T>))
      return caf::make_error(caf::sec::invalid_argument, "an enum has no value", int{value});
    if constexpr (loads) x = static_cast<T>(value);
    return caf::none;
  }
  template <class T>
  caf::error one(std::optional<T>& x) {
    bool present = x.has_value();
    if (auto failed = f(present)) return failed;
    if constexpr (loads) {
      x.reset();
      if (present) x.emplace();
    }
    return present ? one(*x) : caf::error{};
  }
  template <class A, class B>
  caf::error one(std::pair<A, B>& x) {
    return apply(x.first, x.second);
  }
  template <class T>
  caf::error one(std::vector<T>& xs) {
    auto size = xs.size();
    if (auto failed = f.begin_sequence(size)) return failed;
    if constexpr (loads) {
      xs.clear();
      // A size that promises more than there is ends at the first element that is not there.
      for (std::size_t i = 0; i < size; ++i)
        if (auto failed = one(xs.emplace_back())) return failed;
    } else {
      for (auto& x : xs)
        if (auto failed = one(x)) return failed;
    }
    return f.end_sequence();
  }
  template <class... Ts>
  caf::error one(std::variant<Ts...>& x) {
    auto which = static_cast<std::uint8_t>(x.index());
    if (auto failed = f(which)) return failed;
    if (which >= sizeof...(Ts))
      return caf::make_error(caf::sec::invalid_argument, "a variant has no alternative",
                             int{which});
    if constexpr (loads) {
      std::uint8_t i = 0;
      ((i++ == which ? void(x.template emplace<Ts>()) : void()), ...);
    }
    // "this->": clang finds no use of it otherwise in a generic lambda.
    return std::visit([this](auto& alternative) { return this->one(alternative); }, x);
  }
};

/// An inspector that only makes text of a message gets none: prompts stay out of logs.
template <class Inspector, class... Members>
typename Inspector::result_type members(Inspector& f, Members&... all) {
  if constexpr (!std::is_void_v<typename Inspector::result_type>)
    return codec<Inspector>{f}.apply(all...);
}

}  // namespace troupe::protocol::wire

// Found by argument-dependent look-up, so each stands in its type's namespace.
namespace troupe {

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, sampling_params& x) {
  auto& [temperature, top_p, min_p, top_k, seed, repetition, presence, frequency, bias] = x;
  return protocol::wire::members(f, temperature, top_p, min_p, top_k, seed, repetition, presence,
                                 frequency, bias);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, decode_options& x) {
  auto& [sampling, max_tokens, min_tokens, stop_token_ids, ignore_eos, top_logprobs, confidence] =
      x;
  return protocol::wire::members(f, sampling, max_tokens, min_tokens, stop_token_ids, ignore_eos,
                                 top_logprobs, confidence);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, confidence_stop& x) {
  auto& [top_k, mass, steps] = x;
  return protocol::wire::members(f, top_k, mass, steps);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, repetition_stop& x) {
  auto& [ngram, times] = x;
  return protocol::wire::members(f, ngram, times);
}

namespace core {

template <class Inspector, class Tag>
typename Inspector::result_type inspect(Inspector& f, id<Tag>& x) {
  auto& [value] = x;
  return protocol::wire::members(f, value);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, chat_message& x) {
  auto& [role, content] = x;
  return protocol::wire::members(f, role, content);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, deadlines_ms& x) {
  auto& [queue, first_token, total] = x;
  return protocol::wire::members(f, queue, first_token, total);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, generation_request& x) {
  auto& [prompt, parse_special, add_special_tokens, add_generation_prompt, decode, stop,
         include_stop_in_output, boundary, repetition, allowed_token_ids, bad_words,
         skip_special_tokens, echo, priority, deadlines, cache_salt, disconnect, label] = x;
  return protocol::wire::members(
      f, prompt, parse_special, add_special_tokens, add_generation_prompt, decode, stop,
      include_stop_in_output, boundary, repetition, allowed_token_ids, bad_words,
      skip_special_tokens, echo, priority, deadlines, cache_salt, disconnect, label);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, token_piece& x) {
  auto& [token, bytes, logprob, top] = x;
  return protocol::wire::members(f, token, bytes, logprob, top);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, generation_delta& x) {
  auto& [text, tokens, prompt, completion_tokens] = x;
  return protocol::wire::members(f, text, tokens, prompt, completion_tokens);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, token_usage& x) {
  auto& [prompt, cached, completion] = x;
  return protocol::wire::members(f, prompt, cached, completion);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, request_times& x) {
  auto& [queue_us, first_token_us, prefill_us, decode_us, total_us] = x;
  return protocol::wire::members(f, queue_us, first_token_us, prefill_us, decode_us, total_us);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, generation_end& x) {
  auto& [reason, why_refused, message, stop_string, stop_token, usage, times, last] = x;
  return protocol::wire::members(f, reason, why_refused, message, stop_string, stop_token, usage,
                                 times, last);
}

}  // namespace core
}  // namespace troupe
