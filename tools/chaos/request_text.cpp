#include "tools/chaos/request_text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace troupe::chaos {
namespace {

using nlohmann::json;

std::string common_headers(const target_address& at) {
  const bool ipv6 = at.host.find(':') != std::string::npos;  // in brackets, or its colons are ports
  return fmt::format("Host: {}:{}\r\n{}", ipv6 ? "[" + at.host + "]" : at.host, at.port,
                     at.api_key.empty() ? "" : "Authorization: Bearer " + at.api_key + "\r\n");
}

json sampling(const target_address& at, const question& q) {
  json body{{"ignore_eos", true}, {"temperature", q.sampled ? 0.8 : 0.0}};
  if (q.sampled) body["seed"] = q.seed;
  if (!at.model.empty()) body["model"] = at.model;
  return body;
}

}  // namespace

target_address parse_url(const std::string& url) {
  constexpr std::string_view scheme = "http://";
  if (!url.starts_with(scheme))
    throw std::invalid_argument(fmt::format("URL '{}': it must begin with http://", url));
  std::string rest = url.substr(scheme.size());
  while (!rest.empty() && rest.back() == '/') rest.pop_back();
  target_address at;
  at.port = 80;
  const auto bracket = rest.rfind(']'), colon = rest.rfind(':');
  at.host = rest;
  if (colon != std::string::npos && (bracket == std::string::npos || colon > bracket)) {
    unsigned port = 0;
    const char* const end = rest.data() + rest.size();
    const auto [stop, bad] = std::from_chars(rest.data() + colon + 1, end, port);
    if (bad != std::errc{} || stop != end || port == 0 || port > 65535)
      throw std::invalid_argument(
          fmt::format("URL '{}': the port must be a number from 1 to 65535", url));
    at.port = static_cast<std::uint16_t>(port);
    at.host = rest.substr(0, colon);
  }
  if (at.host.size() > 2 && at.host.front() == '[') at.host = at.host.substr(1, at.host.size() - 2);
  if (at.host.empty() || at.host.find('/') != std::string::npos)
    throw std::invalid_argument(
        fmt::format("URL '{}': http://HOST:PORT is expected, without a path", url));
  return at;
}

std::string get_text(const target_address& at, std::string_view path) {
  return fmt::format("GET {} HTTP/1.1\r\n{}\r\n", path, common_headers(at));
}

std::string post_text(const target_address& at, std::string_view path, std::string_view body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", path,
      common_headers(at), body.size(), body);
}

std::vector<std::string> request_pieces(const target_address& at, transport over,
                                        const question& q) {
  json body = sampling(at, q);
  if (over == transport::websocket) {
    body["type"] = "response.create";
    body["input"] = q.prompt;
    body["max_output_tokens"] = q.tokens;
    // The key may be constant: nobody caches an upgrade, and the answer to it is not under test.
    auto upgrade = fmt::format(
        "GET /v1/responses HTTP/1.1\r\n{}Upgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dHJvdXBlLWNoYW9zLWtleQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        common_headers(at));
    return {std::move(upgrade), client_frame(1, body.dump())};
  }
  body["prompt"] = q.prompt;
  body["max_tokens"] = q.tokens;
  body["stream"] = over == transport::sse;
  return {post_text(at, "/v1/completions", body.dump())};
}

std::string client_frame(std::uint8_t opcode, std::string_view payload) {
  constexpr char mask[4] = {'\x5a', '\x11', '\x3c', '\x77'};
  std::string frame(1, static_cast<char>(0x80 | opcode));
  if (payload.size() < 126) {
    frame += static_cast<char>(0x80 | payload.size());
  } else if (payload.size() < 65536) {
    frame += static_cast<char>(0x80 | 126);
    for (int shift = 8; shift >= 0; shift -= 8)
      frame += static_cast<char>(payload.size() >> shift & 0xff);
  } else {
    frame += static_cast<char>(0x80 | 127);
    for (int shift = 56; shift >= 0; shift -= 8)
      frame += static_cast<char>(payload.size() >> shift & 0xff);
  }
  frame.append(mask, sizeof mask);
  for (std::size_t i = 0; i < payload.size(); ++i)
    frame += static_cast<char>(payload[i] ^ mask[i & 3]);
  return frame;
}

}  // namespace troupe::chaos
