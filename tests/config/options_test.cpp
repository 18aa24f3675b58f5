#include "tools/options.hpp"

#include <catch2/catch.hpp>

using namespace troupe;

namespace {

std::variant<runtime_config, early_exit> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "troupe");
  return parse_options(static_cast<int>(words.size()), words.data());
}

std::string problem(std::vector<const char*> words) {
  const auto parsed = parse(std::move(words));
  const auto* stop = std::get_if<early_exit>(&parsed);
  REQUIRE(stop != nullptr);
  CHECK(stop->code == 2);
  return stop->text;
}

}  // namespace

TEST_CASE("options: the model and every kind of value arrive in the configuration", "[config]") {
  const auto parsed = parse({"serve", "m.gguf", "--port", "0", "--kv-cache-memory", "512MiB", "--num-kv-blocks", "300",
                             "--queue-timeout", "1.5", "--api-key", "a", "--api-key", "b", "--allow-half-close"});
  REQUIRE(std::holds_alternative<runtime_config>(parsed));
  const auto& config = std::get<runtime_config>(parsed);
  CHECK(config.model == "m.gguf");
  CHECK(config.port == 0);
  CHECK(config.kv_cache_memory == 512ull << 20);
  CHECK(config.num_kv_blocks == 300u);
  CHECK(config.queue_timeout_s == 1.5);
  CHECK(config.api_keys == std::vector<std::string>{"a", "b"});
  CHECK_FALSE(config.half_close_is_gone);
  CHECK(std::get<runtime_config>(parse({"serve", "-m", "x"})).model == "x");
}

TEST_CASE("options: an unknown option names the nearest known one", "[config]") {
  CHECK(problem({"serve", "m.gguf", "--prot", "1"}).find("did you mean --port?") != std::string::npos);
  CHECK(problem({"serve", "m.gguf", "--max-num-seq=3"}).find("did you mean --max-num-seqs?") != std::string::npos);
  CHECK(problem({"serve", "m.gguf", "--qqqqqqqqqq"}).find("unknown option") != std::string::npos);
}

TEST_CASE("options: all problems are told at once, each with option, value and range", "[config]") {
  const auto text = problem({"serve", "m.gguf", "--block-size", "17", "--max-num-seqs", "0", "--kv-cache-memory", "lots"});
  CHECK(text.find("--block-size: 17 is neither 16 nor 32") != std::string::npos);
  CHECK(text.find("--max-num-seqs: 0 is outside 1..4096") != std::string::npos);
  CHECK(text.find("--kv-cache-memory: 'lots' is not a size") != std::string::npos);
  CHECK(problem({"serve"}).find("no model file") != std::string::npos);
  CHECK(problem({"serve", "m", "--port", "70000"}).find("70000") != std::string::npos);
  CHECK(problem({"serve", "a", "b"}).find("'b': unexpected argument") != std::string::npos);
  CHECK(problem({"sreve"}).size() > 0);
}

TEST_CASE("options: help and version are answers, not problems", "[config]") {
  const auto help = std::get<early_exit>(parse({"serve", "--help"}));
  CHECK(help.code == 0);
  CHECK(help.text.find("--max-step-ms") != std::string::npos);
  CHECK(std::get<early_exit>(parse({"--version"})).text.find("troupe ") == 0);
}
