#include "config/origin_pattern.hpp"

#include <catch2/catch.hpp>

#include "config/runtime_config.hpp"

using namespace troupe;

TEST_CASE("origin_pattern: F011 origins of any scheme are matched part by part", "[config]") {
  CHECK(origin_matches("*", "https://anything.example"));
  CHECK(origin_matches("*", "null"));
  CHECK(origin_matches("null", "null"));
  CHECK_FALSE(origin_matches("http://null", "null"));
  CHECK(origin_matches("app://obsidian.md", "app://obsidian.md"));
  CHECK(origin_matches("HTTP://Ok.Example", "http://ok.example"));
  CHECK(origin_matches("chrome-extension://abcdef", "chrome-extension://abcdef"));
  CHECK_FALSE(origin_matches("chrome-extension://abcdef", "moz-extension://abcdef"));
  CHECK_FALSE(origin_matches("http://ok.example", "https://ok.example"));
  CHECK(origin_matches("file://", "file://"));
}

TEST_CASE("origin_pattern: F011 the default port is the same as none", "[config]") {
  CHECK(origin_matches("http://example.org:80", "http://example.org"));
  CHECK(origin_matches("http://example.org", "http://example.org:80"));
  CHECK(origin_matches("https://example.org:443", "https://example.org"));
  CHECK_FALSE(origin_matches("http://example.org:443", "http://example.org"));
  CHECK_FALSE(origin_matches("http://example.org", "http://example.org:8080"));
  CHECK(origin_matches("http://[::1]:80", "http://[::1]"));
}

TEST_CASE("origin_pattern: F011 * stands for a port, a first label or a host", "[config]") {
  CHECK(origin_matches("http://localhost:*", "http://localhost:5173"));
  CHECK(origin_matches("http://localhost:*", "http://localhost"));
  CHECK_FALSE(origin_matches("http://localhost:*", "https://localhost:5173"));
  CHECK_FALSE(origin_matches("http://localhost:*", "http://localhost.evil.example:5173"));
  CHECK(origin_matches("app://*", "app://obsidian.md"));
  CHECK(origin_matches("http://*", "http://a.example:8080"));
  CHECK(origin_matches("http://*:8080", "http://a.example:8080"));
  CHECK_FALSE(origin_matches("http://*:8080", "http://a.example"));
  CHECK(origin_matches("http://*.local", "http://box.local"));
  CHECK(origin_matches("https://*.example.org", "https://a.b.example.org"));
  CHECK_FALSE(origin_matches("https://*.example.org", "https://example.org"));
  CHECK_FALSE(origin_matches("https://*.example.org", "https://.example.org.evil.example"));
  CHECK_FALSE(origin_matches("https://*.example.org", "https://evilexample.org"));
  CHECK_FALSE(origin_matches("https://*.example.org", "https://a.example.org:8443"));
}

TEST_CASE("origin_pattern: F011 what is no origin matches nothing but *", "[config]") {
  for (const char* origin : {"", "localhost", "http://", "http://a/", "http://u@a.example",
                             "http://a.example:x", "http://a:1:2", "://a", "http://[::1", "1x://a",
                             "http://a.example:99999", "http://evil.example/.example.org"}) {
    CAPTURE(origin);
    CHECK_FALSE(origin_matches("http://*.example.org", origin));
    CHECK_FALSE(origin_matches("http://a.example", origin));
    CHECK_FALSE(origin_matches("null", origin));
    CHECK(origin_matches("*", origin));
  }
}

TEST_CASE("origin_pattern: F011 a pattern that no page can match is refused with what to write",
          "[config]") {
  const auto refused = [](const std::string& pattern, const std::string& words) {
    CAPTURE(pattern);
    runtime_config config;
    config.model = "m.gguf";
    config.allowed_origins = {"http://good.example", pattern};
    REQUIRE(config.problems().size() == 1);
    const auto problem = config.problems()[0];
    CHECK(problem.find("--allowed-origins: '" + pattern + "' matches no page: ") == 0);
    CHECK(problem.find(words) != std::string::npos);
  };
  refused("localhost", "http://localhost:3000");
  refused("localhost:3000", "scheme://host:port");
  refused("*://localhost", "scheme://host");
  refused("", "scheme://host");
  refused("http://a/", "an origin has no path; write http://a");
  refused("http://a.example:3000/x", "write http://a.example:3000");
  refused("http://a*.example", "the host 'a*.example'");
  refused("http://*.*.example", "the host '*.*.example'");
  refused("http://*.", "the host '*.'");
  refused("http://", "the host ''");
  refused("http://user@a", "the host 'user@a'");
  refused("http://a:http", "the port 'http'");
  refused("http://a:080", "the port '080'");
  refused("http://a:70000", "the port '70000'");
  for (const char* pattern : {"*", "null", "app://*", "http://localhost:*", "http://*.local",
                              "file://", "chrome-extension://abcdef", "http://[::1]:3000"}) {
    CAPTURE(pattern);
    CHECK(origin_pattern_problem(pattern).empty());
  }
}
