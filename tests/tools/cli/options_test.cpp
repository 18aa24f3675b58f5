#include "tools/cli/options.hpp"

#include <catch2/catch.hpp>

using namespace troupe;

namespace {

std::variant<runtime_config, early_exit> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "troupe");
  return parse_options(static_cast<int>(words.size()), words.data()).what;
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
  const auto parsed = parse({"serve", "m.gguf", "--port", "0", "--kv-cache-memory", "512MiB",
                             "--num-kv-blocks", "300", "--queue-timeout", "1.5", "--api-key", "a",
                             "--api-key", "b", "--allow-half-close"});
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
  CHECK(problem({"serve", "m.gguf", "--prot", "1"}).find("did you mean --port?") !=
        std::string::npos);
  CHECK(problem({"serve", "m.gguf", "--max-num-seq=3"}).find("did you mean --max-num-seqs?") !=
        std::string::npos);
  CHECK(problem({"serve", "m.gguf", "--qqqqqqqqqq"}).find("unknown option") != std::string::npos);
}

TEST_CASE("options: all problems are told at once, each with option, value and range", "[config]") {
  const auto text = problem({"serve", "m.gguf", "--block-size", "17", "--max-num-seqs", "0",
                             "--kv-cache-memory", "lots"});
  CHECK(text.find("--block-size: '17' is not 16 or 32") != std::string::npos);
  CHECK(text.find("--max-num-seqs: 0 is outside 1..4096") != std::string::npos);
  CHECK(text.find("--kv-cache-memory: 'lots' is not a size") != std::string::npos);
  CHECK(problem({"serve"}).find("no model file") != std::string::npos);
  CHECK(problem({"serve", "m", "--port", "70000"}) ==
        "troupe: --port: 70000 is outside 0..65535\n");
  CHECK(problem({"serve", "a", "b"}).find("'b': unexpected argument") != std::string::npos);
  CHECK(problem({"sreve"}).size() > 0);
  CHECK(problem({}).find("subcommand") != std::string::npos);
}

TEST_CASE(
    "options: a value that is missing, given twice or given to an alias is told by the name that "
    "was used",
    "[config]") {
  CHECK(problem({"serve", "m", "--max-n", "0", "--port"}) ==
        "troupe: --port: a value is missing\ntroupe: --max-n: 0 is outside 1..4096\n");
  CHECK(problem({"serve", "m", "--port", "1", "--port", "2"}) ==
        "troupe: --port: given 2 times: 1, 2\n");
  CHECK(
      problem({"serve", "m", "--port", "--json"}).find("--port: '--json' is not a whole number") !=
      std::string::npos);
  CHECK(problem({"serve", "m", "--ctx-size", "-5"}) ==
        "troupe: --ctx-size: -5 is outside 0..16777216\n");
  CHECK(problem({"serve", "m", "-c=x"}).find("-c: ") != std::string::npos);
  CHECK(problem({"serve", "m", "--no-metrics-open", "--metrics-open"}).find("given 2 times") !=
        std::string::npos);
  CHECK(problem({"serve", "m", "--json", "--log-format", "text"})
            .find("--json: --log-format is given too") != std::string::npos);
  CHECK(problem({"serve", "m", "--config", ""}).find("--config: no file named") !=
        std::string::npos);
}

TEST_CASE("options: flags have both forms, the environment has neither", "[config]") {
  const auto config = [](std::vector<const char*> words) {
    return std::get<runtime_config>(parse(std::move(words)));
  };
  CHECK_FALSE(config({"serve", "m", "--no-enable-prefix-caching"}).enable_prefix_caching);
  CHECK(config({"serve", "m", "--enable-prefix-caching"}).enable_prefix_caching);
  CHECK_FALSE(config({"serve", "m", "--allow-half-close"}).half_close_is_gone);
  CHECK(config({"serve", "m", "--no-allow-half-close"}).half_close_is_gone);
  CHECK_FALSE(config({"serve", "m", "--metrics-open=false"}).metrics_open);
  CHECK(config({"serve", "m", "--json"}).log_format == "json");
  const std::vector<const char*> words{"troupe", "serve", "m", "--no-debug-endpoints"};
  const auto loaded =
      parse_options(4, words.data(), {"TROUPE_DEBUG_ENDPOINTS=1", "TROUPE_METRICS_OPEN=yes"}).what;
  CHECK_FALSE(std::get<runtime_config>(loaded).debug_endpoints);
  CHECK(std::get<runtime_config>(loaded).metrics_open);
}

TEST_CASE("options: a list option takes one word at a time, so the model behind it is the model",
          "[config]") {
  const auto config =
      std::get<runtime_config>(parse({"serve", "--api-key", "a", "--api-key", "b", "m.gguf"}));
  CHECK(config.model == "m.gguf");
  CHECK(config.api_keys == std::vector<std::string>{"a", "b"});
}

TEST_CASE("options: checking and printing the configuration need no model and serve nothing",
          "[config]") {
  const auto checked = std::get<early_exit>(parse({"serve", "--check-config", "--port", "1"}));
  CHECK(checked.code == 0);
  CHECK(checked.text.find("the configuration is sound: 1 of ") == 0);
  CHECK(problem({"serve", "--check-config", "--port", "x", "--max-n", "0"}).find("--max-n") !=
        std::string::npos);
  const auto printed = std::get<early_exit>(parse({"serve", "--print-config", "--port", "1"}));
  CHECK(printed.code == 0);
  CHECK(printed.text.find("port = 1 ") != std::string::npos);
  CHECK(problem({"serve", "--print-config", "--port", "x"}).find("--port") != std::string::npos);
  CHECK(std::get<early_exit>(parse({"config-reference"}))
            .text.find("| `--port` | 8000 | 0..65535 |") != std::string::npos);
}

TEST_CASE("options: help and version are answers, not problems", "[config]") {
  const auto help = std::get<early_exit>(parse({"serve", "--help"}));
  CHECK(help.code == 0);
  CHECK(help.text.find("--max-step-ms") != std::string::npos);
  CHECK(std::get<early_exit>(parse({"--version"})).text.find("troupe ") == 0);
}
