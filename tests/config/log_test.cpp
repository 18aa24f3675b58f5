#include "config/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>

using namespace troupe;

TEST_CASE("log: fields become JSON in the order given, strings escaped, broken UTF-8 replaced",
          "[config]") {
  CHECK(to_json(log_fields{
            {"a", std::string("x\"\n")}, {"n", std::uint64_t{7}}, {"ok", true}, {"d", 0.5}}) ==
        R"({"a":"x\"\n","n":7,"ok":true,"d":0.5})");
  CHECK(to_json(log_fields{}) == "{}");
  CHECK(to_json(log_value{std::string("\xff")}) == "\"\xEF\xBF\xBD\"");
}

TEST_CASE("log: a reader that never reads holds nobody up", "[config]") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  fcntl(ends[1], F_SETPIPE_SZ, 4096);
  const int before = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  configure_log("info", true);
  for (int i = 0; i < 1000; ++i)
    log_event(log_level::info, "request_ended", {{"number", std::int64_t{i}}});
  log_event(log_level::info, "long", {{"text", std::string(100'000, 'x')}});
  dup2(before, STDERR_FILENO);
  close(before);
  close(ends[1]);
  std::string first(16, '\0');
  CHECK(read(ends[0], first.data(), first.size()) == 16);
  CHECK(first.find("{\"time\":") == 0);
  close(ends[0]);
}
