// The fields that say how an answer is sampled, when it stops and how long it may take: the same on
// every endpoint.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "config/nearest.hpp"
#include "config/request_limits.hpp"
#include "net/api/wire_fields.hpp"
#include "net/server/random_id.hpp"

namespace troupe::net {
namespace {

namespace dom = simdjson::dom;

// Per request; the first is OpenAI's. Each entry costs work in every step or in every piece of
// text, so all have an end.
constexpr std::size_t stops_max = 4, stop_bytes_max = 1024, biases_max = 1024,
                      stop_tokens_max = 1024, bad_words_max = 256, bad_word_bytes_max = 256;

/// What a client typed, short enough for a message.
std::string shown(std::string_view word) {
  return std::string{word.substr(0, 64)};
}

std::string or_nearest(const std::string& word, const std::vector<std::string>& known) {
  const std::string near = nearest(shown(word), known);
  return near.empty() ? "" : fmt::format(" Did you mean '{}'?", near);
}

std::string list_of(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

/// The members of one of our own objects. They are few and known, so another key is a mistake.
class named_members {
 public:
  named_members(const char* field, dom::element value, const std::vector<std::string>& known)
      : field_{field}, object_{object_of(value)} {
    for (const auto& [key, item] : object_) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::string name = shown(key);
      throw invalid_value(path(name), fmt::format("'{}' is unknown; '{}' takes {}.{}", path(name),
                                                  field, list_of(known), or_nearest(name, known)));
    }
  }

  std::string path(const std::string& name) const { return fmt::format("{}.{}", field_, name); }

  std::uint64_t integer(const char* name, std::optional<std::uint64_t> fallback, std::int64_t min,
                        std::int64_t max) const {
    const auto item = find(object_, name);
    if (!item) return absent(name, fallback);
    const auto value = as_integer(*item);
    if (!value) throw wrong_type(path(name), "an integer", *item);
    if (*value < min || *value > max)
      throw invalid_value(path(name), fmt::format("'{}' is {}, allowed are {} to {}.", path(name),
                                                  *value, min, max));
    // `min` is never negative here.
    return static_cast<std::uint64_t>(*value);
  }

  float number(const char* name, float fallback, double min, double max) const {
    const auto item = find(object_, name);
    if (!item) return fallback;
    const auto value = as_number(*item);
    if (!value) throw wrong_type(path(name), "a number", *item);
    if (*value < min || *value > max)
      throw invalid_value(path(name), fmt::format("'{}' is {}, allowed are {} to {}.", path(name),
                                                  *value, min, max));
    return static_cast<float>(*value);
  }

 private:
  /// Not given: the fallback, or a mistake where there is none.
  std::uint64_t absent(const char* name, std::optional<std::uint64_t> fallback) const {
    if (!fallback)
      throw invalid_value(path(name), fmt::format("'{}' is required in '{}'.", path(name), field_));
    return *fallback;
  }

  const char* field_;
  dom::object object_;
};

/// The position of the field's text in `words`; nothing when it is absent.
std::optional<std::size_t> choice(const wire_fields& in, const char* field,
                                  const std::vector<std::string>& words) {
  const auto text = in.text(field);
  if (!text) return std::nullopt;
  const auto found = std::find(words.begin(), words.end(), *text);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  throw invalid_value(field, fmt::format("'{}' is '{}', allowed are {}.{}", field, shown(*text),
                                         list_of(words), or_nearest(*text, words)));
}

std::vector<std::string> read_stops(const wire_fields& in) {
  const auto value = in.get("stop");
  std::vector<std::string> stops;
  if (!value) return stops;
  // An empty stop string would match before the first token.
  const auto add = [&](dom::element item, const std::string& param) {
    const auto one = as_text(item);
    if (!one) throw wrong_type(param, "a string", item);
    if (one->empty()) throw invalid_value(param, fmt::format("'{}' must not be empty.", param));
    if (one->size() > stop_bytes_max)
      throw invalid_value(param, fmt::format("'{}' has {} bytes, allowed are {}.", param,
                                             one->size(), stop_bytes_max));
    stops.emplace_back(*one);
  };
  if (value->is_string()) {
    add(*value, "stop");
    return stops;
  }
  const dom::array items = array_of(*value);
  if (items.size() > stops_max)
    throw invalid_value(
        "stop", fmt::format("'stop' holds {} strings, allowed are {}.", items.size(), stops_max));
  for (const dom::element item : items) add(item, fmt::format("stop[{}]", stops.size()));
  return stops;
}

/// As vLLM: an empty list would allow nothing, and is a mistake; null is no list.
std::vector<token_id> read_allowed(const wire_fields& in) {
  const auto value = in.get("allowed_token_ids");
  if (!value) return {};
  const dom::array items = array_of(*value);
  if (items.size() == 0)
    throw invalid_value("allowed_token_ids",
                        "'allowed_token_ids' is empty, so no token could be drawn; leave it out "
                        "to allow all.");
  // Before the items are read: repetitions could make the list as long as the body allows.
  if (items.size() > static_cast<std::size_t>(in.token_end()))
    throw invalid_value("allowed_token_ids",
                        fmt::format("'allowed_token_ids' holds {} tokens, the vocabulary has {}.",
                                    items.size(), in.token_end()));
  return in.tokens(items, "allowed_token_ids");
}

std::vector<std::string> read_bad_words(const wire_fields& in) {
  std::vector<std::string> words;
  const auto value = in.get("bad_words");
  if (!value) return words;
  const dom::array items = array_of(*value);
  if (items.size() > bad_words_max)
    throw invalid_value("bad_words", fmt::format("'bad_words' holds {} words, allowed are {}.",
                                                 items.size(), bad_words_max));
  for (const dom::element item : items) {
    const std::string param = fmt::format("bad_words[{}]", words.size());
    const auto one = as_text(item);
    if (!one) throw wrong_type(param, "a string", item);
    if (one->find_first_not_of(" \t\n\r\f\v") == std::string_view::npos)
      throw invalid_value(param,
                          fmt::format("'{}' must have a character besides white space.", param));
    if (one->size() > bad_word_bytes_max)
      throw invalid_value(param, fmt::format("'{}' has {} bytes, allowed are {}.", param,
                                             one->size(), bad_word_bytes_max));
    words.emplace_back(*one);
  }
  return words;
}

/// Up to a day each; 0 cannot be sent, it is the engine's "not set".
core::deadlines_ms read_deadlines(const wire_fields& in) {
  core::deadlines_ms all;
  const auto value = in.get("deadlines");
  if (!value) return all;
  const named_members members{"deadlines", *value, {"queue_ms", "first_token_ms", "total_ms"}};
  all.queue = members.integer("queue_ms", 0, 1, 86'400'000);
  all.first_token = members.integer("first_token_ms", 0, 1, 86'400'000);
  all.total = members.integer("total_ms", 0, 1, 86'400'000);
  return all;
}

/// Defaults are those of the struct, so that configuration and wire cannot differ.
std::optional<confidence_stop> read_confidence(const wire_fields& in) {
  const auto value = in.get("stop_confidence");
  if (!value) return std::nullopt;
  const named_members members{"stop_confidence", *value, {"top_k", "mass", "steps"}};
  confidence_stop stop;
  stop.top_k = static_cast<std::uint32_t>(members.integer("top_k", stop.top_k, 1, 20));
  stop.mass = members.number("mass", stop.mass, 0, 1);
  stop.steps = static_cast<std::uint32_t>(members.integer("steps", stop.steps, 1, 1024));
  return stop;
}

std::optional<repetition_stop> read_repetition(const wire_fields& in) {
  const auto value = in.get("stop_repetition");
  if (!value) return std::nullopt;
  const named_members members{"stop_repetition", *value, {"ngram", "times"}};
  repetition_stop stop;
  stop.ngram = static_cast<std::uint32_t>(members.integer("ngram", std::nullopt, 1, 64));
  stop.times = static_cast<std::uint32_t>(members.integer("times", std::nullopt, 2, 64));
  return stop;
}

/// A token id as JSON writes the keys of an object: digits alone, no leading zero, so that no token
/// has two names.
std::optional<std::int64_t> token_of_key(std::string_view key) {
  std::int64_t id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc{} || end != key.data() + key.size() || std::to_string(id) != key)
    return std::nullopt;
  return id;
}

/// OpenAI's: ids as keys, -100 to 100 added to the logits.
std::vector<std::pair<token_id, float>> read_bias(const wire_fields& in) {
  std::vector<std::pair<token_id, float>> all;
  const auto value = in.get("logit_bias");
  if (!value) return all;
  // Names of tokens are keys of the object, so this field needs a reading of its own.
  const dom::object object = object_of(*value);
  std::size_t count = 0;
  for (const auto& [key, item] : object) {
    const std::string param = fmt::format("logit_bias.{}", shown(key));
    if (++count > biases_max)
      throw invalid_value(
          "logit_bias",
          fmt::format("'logit_bias' holds more than the {} tokens allowed.", biases_max));
    const auto id = token_of_key(key);
    if (!id)
      throw invalid_value(
          param, fmt::format("The key '{}' of 'logit_bias' is not a token id.", shown(key)));
    const token_id token = in.token(*id, param);
    const auto bias = as_number(item);
    if (!bias) throw wrong_type(param, "a number", item);
    if (*bias < -100 || *bias > 100)
      throw invalid_value(param, fmt::format("'{}' is {}, allowed are -100 to 100.", param, *bias));
    all.emplace_back(token, static_cast<float>(*bias));
  }
  // By token: equal requests look equal whatever the order of their keys.
  std::sort(all.begin(), all.end());
  return all;
}

sampling_params read_sampling(const wire_fields& in) {
  sampling_params p;
  p.temperature = in.number("temperature", p.temperature);
  p.top_p = in.number("top_p", p.top_p);
  p.min_p = in.number("min_p", p.min_p);
  p.top_k = static_cast<std::int32_t>(in.integer("top_k", p.top_k));
  p.seed = in.get("seed") ? static_cast<std::uint64_t>(in.integer("seed", 0)) : random_seed();
  p.repetition_penalty = in.number("repetition_penalty", p.repetition_penalty);
  // Logits are divided by it.
  if (!(p.repetition_penalty > 0.0f))
    throw invalid_value("repetition_penalty",
                        "'repetition_penalty' is 0, allowed are numbers above 0 up to 10.");
  p.presence_penalty = in.number("presence_penalty", p.presence_penalty);
  p.frequency_penalty = in.number("frequency_penalty", p.frequency_penalty);
  p.logit_bias = read_bias(in);
  return p;
}

/// An empty salt is a salt: it shares with no request that has none.
std::optional<std::string> read_salt(const wire_fields& in) {
  auto salt = in.text("cache_salt");
  if (salt && salt->size() > cache_salt_bytes_max)
    throw invalid_value("cache_salt", fmt::format("'cache_salt' has {} bytes, allowed are {}.",
                                                  salt->size(), cache_salt_bytes_max));
  return salt;
}

}  // namespace

// What /tokenize needs as well.
core::generation_request wire_fields::text_request() const {
  core::generation_request r;
  r.add_special_tokens = boolean("add_special_tokens", true);
  r.parse_special = boolean("parse_special", true);
  r.add_generation_prompt = boolean("add_generation_prompt", true);
  return r;
}

// The order of the reads is the order in which mistakes are found: a body with several is told of
// the first.
core::generation_request wire_fields::sampling_request() const {
  core::generation_request r = text_request();
  r.decode.sampling = read_sampling(*this);
  r.decode.min_tokens = static_cast<std::uint32_t>(integer("min_tokens", 0));
  r.stop = read_stops(*this);
  r.include_stop_in_output = boolean("include_stop_str_in_output", false);
  if (const auto at = choice(*this, "stop_boundary", {"none", "word", "line"}))
    // The words stand in the order of the enum.
    r.boundary = static_cast<stop_boundary>(*at);
  r.decode.confidence = read_confidence(*this);
  r.repetition = read_repetition(*this);
  r.allowed_token_ids = read_allowed(*this);
  r.bad_words = read_bad_words(*this);
  r.decode.ignore_eos = boolean("ignore_eos", false);
  r.skip_special_tokens = boolean("skip_special_tokens", true);
  r.priority = static_cast<std::int32_t>(integer("priority", 0));
  // Ignoring it would let a caller believe that it is served first.
  if (r.priority != 0 && !limits().priorities)
    throw invalid_value(
        "priority", fmt::format("'priority' is {}, allowed is 0: requests run as they come here "
                                "(--scheduling-policy fcfs).",
                                r.priority));
  r.deadlines = read_deadlines(*this);
  r.cache_salt = read_salt(*this);
  if (const auto at = choice(*this, "on_disconnect", {"stop", "keep_prefix"}))
    // The order of the enum, as above.
    r.disconnect = static_cast<on_disconnect>(*at);
  if (const auto ids = get("stop_token_ids")) {
    const dom::array all = array_of(*ids);
    if (all.size() > stop_tokens_max)
      throw invalid_value("stop_token_ids",
                          fmt::format("'stop_token_ids' holds {} tokens, allowed are {}.",
                                      all.size(), stop_tokens_max));
    r.decode.stop_token_ids = tokens(all, "stop_token_ids");
  }
  return r;
}

}  // namespace troupe::net
