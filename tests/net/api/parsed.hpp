// What the wire tests share: bodies parsed as the endpoints do, failing the test when the outcome
// is the other one.
#pragma once
#include <catch2/catch.hpp>
#include <string>

#include "net/api/wire_in.hpp"

namespace troupe::net::test {

inline const wire_limits limits{{"main", "alias"}, 1000, 8};

/// A chat of one message, with `members` behind it.
inline std::string chat_body(const std::string& members) {
  return R"({"messages":[{"role":"user","content":"hi"}])" + members + "}";
}

inline api_request chat(const std::string& members) {
  auto parsed = parse_chat(chat_body(members), limits);
  if (auto* e = std::get_if<api_error>(&parsed)) FAIL(e->message);
  return std::get<api_request>(parsed);
}

inline api_request completions(const std::string& body) {
  auto parsed = parse_completions(body, limits);
  if (auto* e = std::get_if<api_error>(&parsed)) FAIL(e->message);
  return std::get<api_request>(parsed);
}

inline api_error body_error(const std::string& body) {
  auto parsed = parse_chat(body, limits);
  if (!std::holds_alternative<api_error>(parsed)) FAIL("accepted: " << body);
  return std::get<api_error>(parsed);
}

inline api_error chat_error(const std::string& members) {
  return body_error(chat_body(members));
}

}  // namespace troupe::net::test
