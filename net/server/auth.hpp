// Who may ask: API keys compared in constant time, and which web pages may use this server. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/runtime_config.hpp"
#include "net/http/http_message.hpp"

namespace troupe::net {

/// True when no key is configured or `given` is one of them. Time depends on lengths only.
bool key_is_valid(const std::vector<std::string>& keys, std::string_view given);
/// The key of `Authorization: Bearer KEY`; for a WebSocket also of the subprotocol
/// `openai-insecure-api-key.KEY`.
std::string presented_key(const http_request&, bool websocket);
/// The offered subprotocols contain `responses`.
bool offers_responses_protocol(const http_request&);

/// No Origin, one of the allow list ("*" allows any), or the same host as Host. Without API keys
/// that host must be an address, localhost, the configured host or that of an allowed origin: a
/// page that points its own name at this machine is refused.
bool origin_is_allowed(const runtime_config&, const http_request&);

}  // namespace troupe::net
