#include "tools/bench/load/load_plan.hpp"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

namespace troupe {
namespace {

// One or two tokens each in common vocabularies.
constexpr const char* words[] = {
    "the",    "river",  "and",    "a",      "small",    "house",  "near",    "green",
    "hills",  "where",  "people", "often",  "talk",     "about",  "old",     "trees",
    "under",  "bright", "stars",  "while",  "children", "play",   "with",    "water",
    "stones", "birds",  "or",     "bread",  "in",       "winter", "light",   "falls",
    "over",   "quiet",  "fields", "of",     "long",     "grass",  "when",    "morning",
    "comes",  "we",     "walk",   "to",     "market",   "for",    "salt",    "paper",
    "music",  "then",   "return", "before", "night",    "some",   "stories", "begin",
    "again",  "their",  "voices", "carry",  "far",      "across", "open",    "country"};
constexpr std::size_t word_count = sizeof words / sizeof *words;

/// Neighbouring numbers must not give neighbouring streams.
std::mt19937_64 stream_of(std::uint64_t seed, std::uint64_t number, std::uint64_t purpose) {
  std::seed_seq mix{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                    static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(purpose)};
  return std::mt19937_64(mix);
}

/// In [0, 1). The standard distributions differ between libraries, the engines do not.
double uniform(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

std::uint32_t read_count(const std::string& option, std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > 1'000'000)
    throw std::invalid_argument(
        fmt::format("{}: '{}' is neither a number from 1 to 1000000 nor a range LOW:HIGH of them",
                    option, text));
  return value;
}

std::uint32_t between(std::mt19937_64& random, std::uint32_t low, std::uint32_t high) {
  return low + static_cast<std::uint32_t>(random() % (std::uint64_t{high} - low + 1));
}

}  // namespace

void read_range(const std::string& option, const std::string& text, std::uint32_t& low,
                std::uint32_t& high) {
  const auto colon = text.find(':');
  low = read_count(option, std::string_view(text).substr(0, colon));
  high = colon == std::string::npos ? low
                                    : read_count(option, std::string_view(text).substr(colon + 1));
  if (low > high)
    throw std::invalid_argument(fmt::format("{}: the range {} begins above its end", option, text));
}

planned_request plan_request(const load_options& options, std::uint64_t number) {
  auto random = stream_of(options.seed, number, 1);
  planned_request out;
  const auto length = between(random, options.words_min, options.words_max);
  for (std::uint32_t i = 0; i < length; ++i) {
    if (i) out.prompt += ' ';
    out.prompt += words[random() % word_count];
  }
  auto lengths = stream_of(options.seed, number, 3);
  out.max_tokens = between(lengths, options.tokens_min, options.tokens_max);
  // Drawn for everybody, so that another share changes only who leaves.
  const double leaves = uniform(random), reads = uniform(random);
  const auto after = static_cast<std::uint32_t>(random() % out.max_tokens);
  out.reset = random() & 1;
  if (leaves < options.cancel_share) out.cancel_after = after;
  out.slow = reads < options.slow_share;
  return out;
}

double arrival_gap_s(double rate, std::uint64_t seed, std::uint64_t number) {
  auto random = stream_of(seed, number, 2);
  return -std::log1p(-uniform(random)) / rate;
}

std::string request_body(const load_options& options, const std::string& prompt,
                         std::uint32_t max_tokens, bool stream_usage, bool ignore_eos) {
  nlohmann::json body = {
      {"model", options.model}, {"max_tokens", max_tokens}, {"temperature", 0}, {"stream", true}};
  if (options.endpoint == "chat")
    body["messages"] = nlohmann::json::array({{{"role", "user"}, {"content", prompt}}});
  else
    body["prompt"] = prompt;
  if (stream_usage) body["stream_options"] = {{"include_usage", true}};
  if (ignore_eos) body["ignore_eos"] = true;
  return body.dump();
}

}  // namespace troupe
