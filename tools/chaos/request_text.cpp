#include "tools/chaos/request_text.hpp"

#include <nlohmann/json.hpp>

#include "tools/client/ws_reader.hpp"

namespace troupe::chaos {
namespace {

using nlohmann::json;

json sampling(const server_address& at, const question& q) {
  json body{{"ignore_eos", true}, {"temperature", q.sampled ? 0.8 : 0.0}};
  if (q.sampled) body["seed"] = q.seed;
  if (!at.model.empty()) body["model"] = at.model;
  return body;
}

}  // namespace

std::vector<std::string> request_pieces(const server_address& at, transport over,
                                        const question& q) {
  json body = sampling(at, q);
  if (over == transport::websocket) {
    body["type"] = "response.create";
    body["input"] = q.prompt;
    body["max_output_tokens"] = q.tokens;
    // The key may be constant: nobody caches an upgrade, and the answer to it is not under test.
    auto upgrade = get_text(at, "/v1/responses",
                            "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                            "Sec-WebSocket-Key: dHJvdXBlLWNoYW9zLWtleQ==\r\n"
                            "Sec-WebSocket-Version: 13\r\n");
    return {std::move(upgrade), api_client::client_frame(1, body.dump())};
  }
  body["prompt"] = q.prompt;
  body["max_tokens"] = q.tokens;
  body["stream"] = over == transport::sse;
  return {post_text(at, "/v1/completions", body.dump())};
}

}  // namespace troupe::chaos
