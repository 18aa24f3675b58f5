#include <catch2/catch.hpp>

#include "tests/net/test_client.hpp"

using namespace troupe;
using namespace troupe::net::test;

namespace {

const std::string create =
    R"({"type":"response.create","input":"hi","instructions":"be kind","stream":true})";

std::string type_of(const std::string& json) {
  const std::string key = R"({"type":")";
  return json.starts_with(key) ? json.substr(key.size(), json.find('"', key.size()) - key.size())
                               : "";
}

}  // namespace

TEST_CASE("ws_session: a response is the whole sequence of events, numbered from 0", "[net]") {
  running_server s;
  test_client c{s.port};
  REQUIRE(c.upgrade().status == 101);
  for (int round = 0; round < 2; ++round) {
    c.send_ws(create);
    std::vector<std::string> types;
    std::string last;
    while (types.empty() || types.back() != "response.completed") {
      last = c.read_ws().payload;
      CHECK(contains(last, "\"sequence_number\":" + std::to_string(types.size())));
      types.push_back(type_of(last));
      REQUIRE(types.size() < 20);
    }
    CHECK(types == std::vector<std::string>{
                       "response.created", "response.in_progress", "response.output_item.added",
                       "response.content_part.added", "response.output_text.delta",
                       "response.output_text.delta", "response.output_text.delta",
                       "response.output_text.done", "response.content_part.done",
                       "response.output_item.done", "response.completed"});
    CHECK(contains(last, R"("text":"Hello, world")"));
    CHECK(contains(last, R"("instructions":"be kind")"));
    CHECK(contains(last, R"("usage":{"input_tokens":7)"));
  }
  CHECK_FALSE(s.engine.overrun());
}

TEST_CASE(
    "ws_session: a cancel ends the active response as incomplete, and an unknown one is ignored",
    "[net]") {
  running_server s;
  script one;
  one.hold = hold_at::decode;
  s.engine.play(one);
  test_client c{s.port};
  c.upgrade();
  c.send_ws(R"({"type":"response.cancel"})");
  c.send_ws(create);
  c.read_until("Hello");
  c.send_ws(R"({"type":"response.cancel","response_id":"resp_unknown"})");
  c.send_ws(R"({"type":"response.cancel"})");
  const auto all = c.read_until(R"("incomplete_details":{"reason":"cancelled"})");
  CHECK(contains(all, "response.incomplete"));
  CHECK_FALSE(contains(all, R"({"type":"error")"));
  CHECK(s.engine.cancels().size() == 1);
}

TEST_CASE("ws_session: responses wait in order, and too many are refused", "[net]") {
  runtime_config config;
  config.max_ws_queue = 1;
  running_server s{config};
  script one;
  one.hold = hold_at::decode;
  s.engine.play(one);
  test_client c{s.port};
  c.upgrade();
  for (int i = 0; i < 3; ++i) c.send_ws(create);
  c.read_until("websocket_queue_full");
  CHECK(s.engine.submitted().size() == 1);
  s.engine.play(script{});
  c.send_ws(R"({"type":"response.cancel"})");
  c.read_until("response.completed");
  CHECK(s.engine.submitted().size() == 2);
}

TEST_CASE("ws_session: mistakes are error events and the connection stays open", "[net]") {
  running_server s;
  test_client c{s.port};
  c.upgrade();
  const std::vector<std::pair<std::string, std::string>> mistakes{
      {"{", "invalid_json"},
      {"[]", "invalid_json"},
      {R"({"type":"response.dance"})", "unknown_event_type"},
      {R"({"type":"response.create","input":"a","previous_response_id":"resp_1"})",
       "previous_response_not_found"},
      {R"({"type":"response.create","input":"a","stream_id":"x"})", "unsupported_parameter"},
      {R"({"type":"response.create","input":"a","background":true})", "unsupported_parameter"},
      {R"({"type":"response.create"})", "invalid_value"},
      {R"({"type":"response.create","input":"a","model":"other"})", "model_not_found"},
      {R"({"type":"response.steer"})", "steering_not_supported"},
  };
  for (const auto& [message, code] : mistakes) {
    CAPTURE(message);
    c.send_ws(message);
    CHECK(contains(c.read_ws().payload, "\"code\":\"" + code + "\""));
  }
  CHECK(s.engine.submitted().empty());
  c.send_ws(create);
  CHECK_NOTHROW(c.read_until("response.completed"));
}

TEST_CASE("ws_session: binary, too large and broken frames close with their codes", "[net]") {
  runtime_config config;
  config.max_message_bytes = 1000;
  running_server s{config};
  const auto code_after = [&](const std::string& payload, int opcode) {
    test_client c{s.port};
    c.upgrade();
    c.send_ws(payload, opcode);
    return c.read_ws().close_code();
  };
  CHECK(code_after("\x01\x02", 2) == 1003);
  CHECK(code_after(std::string(2000, ' '), 1) == 1009);
  CHECK(code_after("\xff\xfe", 1) == 1007);
}

TEST_CASE(
    "ws_session: pings are answered while a response runs, and a silent peer is pinged and dropped",
    "[net]") {
  runtime_config config;
  config.ws_ping_interval_s = 0.2;
  running_server s{config};
  script one;
  one.hold = hold_at::prefill;
  s.engine.play(one);
  test_client c{s.port};
  c.upgrade();
  c.send_ws(create);
  for (int i = 0; i < 4; ++i) c.read_ws();
  c.send_ws("are you there", 9);
  const auto pong = c.read_ws();
  CHECK(pong.opcode == 10);
  CHECK(pong.payload == "are you there");
  CHECK(c.read_ws().opcode == 9);
  CHECK(c.closed_by_peer());
  CHECK(fake_engine::eventually([&] { return s.engine.cancels().size() == 1; }));
}

TEST_CASE("ws_session: key, origin and plain GET are settled before the upgrade", "[net]") {
  runtime_config config;
  config.api_keys = {"secret"};
  config.allowed_origins = {"http://page.example"};
  running_server s{config};
  const auto status = [&](const std::string& headers) {
    return test_client{s.port}.upgrade(headers).status;
  };
  CHECK(status("") == 401);
  CHECK(status("Authorization: Bearer wrong\r\n") == 401);
  CHECK(status("Authorization: Bearer secret\r\n") == 101);
  CHECK(status("Authorization: Bearer secret\r\nOrigin: http://evil.example\r\n") == 403);
  CHECK(status("Authorization: Bearer secret\r\nOrigin: http://page.example\r\n") == 101);
  CHECK(status("Authorization: Bearer secret\r\nOrigin: http://127.0.0.1\r\n") == 101);
  test_client browser{s.port};
  const auto r =
      browser.upgrade("Sec-WebSocket-Protocol: responses, openai-insecure-api-key.secret\r\n");
  CHECK(r.status == 101);
  CHECK(r.header("Sec-WebSocket-Protocol") == "responses");
  test_client plain{s.port};
  plain.send(get("/v1/responses", "Authorization: Bearer secret\r\n"));
  const auto refused = plain.read_reply();
  CHECK(refused.status == 405);
  CHECK(refused.header("Allow") == "POST, OPTIONS");
}

TEST_CASE(
    "ws_session: C194 draining closes a quiet socket with 1001 and a busy one after its response",
    "[net]") {
  running_server s;
  script one;
  one.pause = std::chrono::milliseconds{30};
  s.engine.play(one);
  test_client quiet{s.port}, busy{s.port};
  quiet.upgrade();
  busy.upgrade();
  busy.send_ws(create);
  busy.read_until("response.created");
  s.server_under_test.drain();
  CHECK(quiet.read_ws().close_code() == 1001);
  std::string last;
  ws_frame f;
  while ((f = busy.read_ws()).opcode == 1) last = f.payload;
  CHECK(type_of(last) == "response.completed");
  CHECK(f.close_code() == 1001);
}

TEST_CASE("ws_session: the age limit is announced and closes with 1001", "[net]") {
  runtime_config config;
  config.ws_max_age_s = 0.1;
  running_server s{config};
  test_client c{s.port};
  c.upgrade();
  CHECK(contains(c.read_ws().payload, "websocket_connection_limit_reached"));
  CHECK(c.read_ws().close_code() == 1001);
}
