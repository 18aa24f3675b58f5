#include "config/options/load_config.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/support/source_dir.hpp"
#include "tests/support/temporary_file.hpp"

using namespace troupe;

namespace {

given_option option(const char* name, const char* text) {
  return {find_option(name), std::string("--") + name, {given_value::kind::word, text, {}}};
}

std::string source_file(const std::string& name) {
  std::ifstream in(troupe::test::source_dir() + "/" + name);
  REQUIRE(in);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace

TEST_CASE("load_config: option before environment before file before default", "[config]") {
  const test::temporary_file file("port = 1\nmax-n = 2\nmax-num-seqs = 3\n", "c.toml");
  const auto loaded = load_config({file.path(),
                                   {"TROUPE_MAX_N=5", "TROUPE_MAX_NUM_SEQS=6", "HOME=/"},
                                   {option("max-num-seqs", "7")}});
  REQUIRE(loaded.problems.empty());
  CHECK(loaded.config.port == 1);
  CHECK(loaded.config.max_n == 5);
  CHECK(loaded.config.max_num_seqs == 7);
  CHECK(loaded.config.max_connections == 1024);
  CHECK(loaded.origins.at("port") == "file " + file.path() + ":1");
  CHECK(loaded.origins.at("max-n") == "environment TROUPE_MAX_N");
  CHECK(loaded.origins.at("max-num-seqs") == "option --max-num-seqs");
  CHECK(loaded.origins.count("max-connections") == 0);
}

TEST_CASE("load_config: all problems of all sources are told at once, each with its source",
          "[config]") {
  const test::temporary_file file(
      "port = 99999\nmax-num-seq = 4\n\nhost = 5\n[scheduling]\nmax-n = 1\n", "c.toml");
  const auto loaded = load_config(
      {file.path(),
       {"TROUPE_PORT=abc", "TROUPE_MAX_NUM_SEQ=3", "TROUPE_QQQQ=1", "TROUPE_E2E_SCALE=5"},
       {option("port", "-1"), option("preemption", "park"), option("plant-leak", "2")}});
  const auto path = file.path();
  CHECK(loaded.problems ==
        std::vector<std::string>{
            path + ":5: [scheduling]: a table; the keys are flat, without sections",
            path + ":1: port: 99999 is outside 0..65535",
            path + ":2: max-num-seq: unknown key; did you mean max-num-seqs?",
            path + ":4: host: 5 is not a string",
            "TROUPE_PORT: 'abc' is not a whole number, 0..65535",
            "TROUPE_MAX_NUM_SEQ: unknown variable; did you mean TROUPE_MAX_NUM_SEQS?",
            "TROUPE_QQQQ: unknown variable; --help lists them all",
            "--port: -1 is outside 0..65535",
            "--preemption: park needs a host tier, --kv-offloading-size above 0",
            "--plant-leak: 2 needs --debug-endpoints"});
}

TEST_CASE("load_config: an empty address or name is refused, wherever it comes from", "[config]") {
  const auto loaded = load_config({"", {}, {option("host", "")}});
  CHECK(loaded.problems == std::vector<std::string>{
                               "--host: an empty address would be every address; 0.0.0.0 says so"});
  runtime_config unnamed;
  unnamed.served_model_names = {"a", ""};
  CHECK(unnamed.contradictions() ==
        std::vector<std::string>{"--served-model-name: an empty name is none"});
}

TEST_CASE("load_config: a wrong value is a problem also where another source overrides it",
          "[config]") {
  const auto loaded = load_config({"", {"TROUPE_PORT=x"}, {option("port", "80")}});
  CHECK(loaded.problems.size() == 1);
  CHECK(loaded.config.port == 80);
}

TEST_CASE("load_config: the file may be named by TROUPE_CONFIG, an option wins", "[config]") {
  const test::temporary_file one("port = 1\n", "one.toml"), two("port = 2\n", "two.toml");
  CHECK(load_config({"", {"TROUPE_CONFIG=" + one.path()}, {}}).config.port == 1);
  CHECK(load_config({two.path(), {"TROUPE_CONFIG=" + one.path()}, {}}).config.port == 2);
}

TEST_CASE("load_config: an alias in a file is told by its name there", "[config]") {
  const test::temporary_file file("ctx-size = 5\n", "c.toml");
  CHECK(load_config({file.path(), {}, {}}).problems[0] ==
        file.path() + ":1: ctx-size: unknown key; its name here is max-model-len");
}

TEST_CASE("load_config: a file reference to a hidden or an empty key is refused", "[config]") {
  const test::temporary_file hidden("api-key = ['***']\n", "c.toml");
  CHECK(load_config({hidden.path(), {}, {}}).problems ==
        std::vector<std::string>{
            "--api-key: '***' stands for a key that was not printed; give the key itself"});
  CHECK(load_config({hidden.path(), {"TROUPE_API_KEY=real"}, {}}).problems.empty());
  CHECK(load_config({"", {"TROUPE_API_KEY=a,,b"}, {}}).problems.size() == 1);
}

TEST_CASE("load_config: a pool size that was given is marked, so that it never shrinks",
          "[config]") {
  CHECK_FALSE(load_config({}).config.kv_cache_memory_given);
  CHECK(load_config({"", {"TROUPE_KV_CACHE_MEMORY=1GiB"}, {}}).config.kv_cache_memory_given);
}

TEST_CASE("load_config: the printed configuration reads back to the same values", "[config]") {
  const std::vector<given_option> options{option("model", "m \"x\".gguf"),
                                          option("port", "0"),
                                          option("kv-offloading-size", "0.5"),
                                          option("num-kv-blocks", "300"),
                                          option("queue-timeout", "0.1"),
                                          option("allow-half-close", "true"),
                                          option("allowed-origins", "http://a,http://b"),
                                          option("kv-cache-memory", "1048577"),
                                          option("enable-prefix-caching", "false")};
  const auto first = load_config({"", {}, options});
  REQUIRE(first.problems.empty());
  const test::temporary_file printed(config_toml(first), "c.toml");
  const auto second = load_config({printed.path(), {}, {}});
  REQUIRE(second.problems.empty());
  for (const auto& spec : option_table())
    CHECK(value_text(spec, second.config) == value_text(spec, first.config));
  CHECK(second.config.queue_timeout_s == 0.1);
  CHECK(second.config.kv_offloading_bytes == 512ull << 20);
}

TEST_CASE("load_config: the printed configuration shows origins and never a key", "[config]") {
  const auto text =
      config_toml(load_config({"", {"TROUPE_API_KEY=secret-1,secret-2"}, {option("port", "81")}}));
  CHECK(text.find("secret") == std::string::npos);
  CHECK(text.find("api-key = [\"***\", \"***\"]") != std::string::npos);
  CHECK(text.find("[environment TROUPE_API_KEY]") != std::string::npos);
  CHECK(text.find("0..65535 [option --port]") != std::string::npos);
  CHECK(text.find("max-num-seqs = 32 ") != std::string::npos);
}

TEST_CASE("load_config: the shipped files are sound and default.toml says the defaults",
          "[config]") {
  const std::string folder = troupe::test::source_dir() + "/config/";
  for (const char* name : {"default.toml", "tiny.toml", "chaos.toml"}) {
    INFO(name);
    CHECK(load_config({folder + name, {}, {}}).problems.empty());
  }
  CHECK(source_file("config/default.toml") == config_toml(load_config({})));
}

TEST_CASE("load_config: the reference in the README is the table", "[config]") {
  const auto readme = source_file("config/README.md");
  const std::string begin = "<!-- begin: troupe config-reference -->\n", end = "<!-- end -->";
  const auto from = readme.find(begin);
  REQUIRE(from != std::string::npos);
  const auto at = from + begin.size();
  CHECK(readme.substr(at, readme.find(end) - at) == option_reference());
}

TEST_CASE(
    "load_config: every TROUPE_ variable that scripts and tests read is a setting or known as "
    "theirs",
    "[config]") {
  std::vector<std::string> known{"TROUPE_CONFIG"};
  for (const auto& spec : option_table()) known.push_back(variable_name(spec));
  known.insert(known.end(), tool_variables().begin(), tool_variables().end());
  const std::regex read(R"re((?:environ\.get\(|environ\[|getenv\(|\$\{?)"?(TROUPE_[A-Z0-9_]+))re");
  std::size_t found = 0;
  for (const char* folder : {"tools", "tests"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(troupe::test::source_dir() + "/" + folder)) {
      const auto kind = entry.path().extension();
      if (!entry.is_regular_file() ||
          (kind != ".py" && kind != ".cpp" && kind != ".hpp" && kind != ""))
        continue;
      const auto text =
          source_file(std::filesystem::relative(entry.path(), troupe::test::source_dir()).string());
      for (auto at = std::sregex_iterator(text.begin(), text.end(), read);
           at != std::sregex_iterator(); ++at, ++found) {
        INFO(entry.path());
        CHECK_THAT(known, Catch::VectorContains((*at)[1].str()));
      }
    }
  }
  CHECK(found > 5);
}

TEST_CASE("F001 load_config: the variables of a Kubernetes Service are ignored with one warning",
          "[config]") {
  const auto loaded =
      load_config({"",
                   {"TROUPE_PORT=tcp://10.43.7.9:8000", "TROUPE_SERVICE_HOST=1.2.3.4",
                    "TROUPE_SERVICE_PORT=8000", "TROUPE_PORT_8000_TCP=tcp://10.43.7.9:8000",
                    "TROUPE_PORT_8000_TCP_PROTO=tcp", "TROUPE_MAX_N=5"},
                   {option("port", "81")}});
  CHECK(loaded.problems.empty());
  CHECK(loaded.config.port == 81);
  CHECK(loaded.config.max_n == 5);
  CHECK(loaded.warnings ==
        std::vector<std::string>{
            "TROUPE_PORT, TROUPE_PORT_8000_TCP, TROUPE_PORT_8000_TCP_PROTO and 2 more: ignored, "
            "Kubernetes sets such variables in a pod for a Service whose name begins with troupe; "
            "enableServiceLinks: false in the pod's spec keeps them out"});
  CHECK(load_config({"", {"TROUPE_PORT=tcp"}, {}}).problems.size() == 1);
}

TEST_CASE("D5 load_config: an empty variable counts as unset", "[config]") {
  const auto loaded = load_config({"", {"TROUPE_PORT=", "TROUPE_HOST=", "TROUPE_API_KEY="}, {}});
  CHECK(loaded.problems.empty());
  CHECK(loaded.warnings.empty());
  CHECK(loaded.config.port == runtime_config{}.port);
  CHECK(loaded.config.host == runtime_config{}.host);
  CHECK(loaded.config.api_keys.empty());
  CHECK(loaded.origins.empty());
}

TEST_CASE("D7 load_config: brackets around an IPv6 address are taken off, a URL is refused",
          "[config]") {
  const auto bracketed = load_config({"", {"TROUPE_HOST=[::1]"}, {}});
  CHECK(bracketed.problems.empty());
  CHECK(bracketed.config.host == "::1");
  CHECK(load_config({"", {}, {option("host", "http://127.0.0.1")}}).problems.size() == 1);
  CHECK(load_config({"", {}, {option("host", "*")}}).problems.size() == 1);
}
