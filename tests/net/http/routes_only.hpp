// The routes without a socket: a request in, its reply out.
#pragma once
#include "net/http/http_routes.hpp"
#include "tests/net/fake_engine.hpp"
#include "tests/net/test_client.hpp"

namespace troupe::net::test {

struct routes_only {
  explicit routes_only(runtime_config config = {}) : context{config, engine, counters} {}
  http_reply ask(const std::string& method, const std::string& target, const std::string& body = "",
                 header_list headers = {}) {
    http_request r;
    r.method = method;
    r.target = target;
    r.body = body;
    r.headers = std::move(headers);
    auto routed = route(r, context);
    if (auto* reply = std::get_if<http_reply>(&routed.what)) return *reply;
    if (auto* slow = std::get_if<slow_reply>(&routed.what)) return (*slow)();
    return {.status = 0, .headers = {}, .body = "not answered here"};
  }
  fake_engine engine;
  metrics counters;
  route_context context;
};

inline std::string header(const http_reply& r, const std::string& name) {
  for (const auto& [key, value] : r.headers)
    if (key == name) return value;
  return "";
}

}  // namespace troupe::net::test
