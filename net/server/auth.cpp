#include "net/server/auth.hpp"

#include <arpa/inet.h>

#include <algorithm>

#include "config/origin_pattern.hpp"

namespace troupe::net {
namespace {

/// Not token_list(): what browsers send as protocols may hold keys with characters no token has.
std::vector<std::string> split_list(std::string_view list) {
  std::vector<std::string> items;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, comma);
    while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) item.remove_prefix(1);
    while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) item.remove_suffix(1);
    if (!item.empty()) items.emplace_back(item);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return items;
}

std::vector<std::string> offered_protocols(const http_request& request) {
  std::vector<std::string> all;
  // A list may be spread over several fields of the name (RFC 9110, 5.3).
  for (const auto& [key, value] : request.headers)
    if (iequals(key, "Sec-WebSocket-Protocol"))
      for (auto& item : split_list(value)) all.push_back(std::move(item));
  return all;
}

/// Whether a page on another machine cannot have given itself this host name by pointing a name of
/// its own at us (DNS rebinding): an address, localhost, the configured host, the host of an
/// allowed origin. Patterns with a `*` name no host, so they do not count.
bool is_our_host(const runtime_config& config, const std::string& host) {
  unsigned char address[16];
  const bool bracketed = host.starts_with('[');
  const std::string bare = bracketed ? host.substr(1, host.size() - 2) : host;
  if (::inet_pton(bracketed ? AF_INET6 : AF_INET, bare.c_str(), address) == 1) return true;
  if (host == "localhost" || iequals(bare, config.host)) return true;
  return std::any_of(config.allowed_origins.begin(), config.allowed_origins.end(),
                     [&](const auto& pattern) {
                       const auto allowed = parse_origin(pattern);
                       return allowed && allowed->host == host;
                     });
}

/// Takes the same time wherever the keys differ, so that a key cannot be found letter by letter.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const char left = i < a.size() ? a[i] : '\0';
    difference |= static_cast<unsigned char>(left ^ b[i]);
  }
  return difference == 0;
}

}  // namespace

bool key_is_valid(const std::vector<std::string>& keys, std::string_view given) {
  bool valid = keys.empty();
  // No early end: time must not tell which key matched.
  for (const auto& key : keys) valid |= equal_in_constant_time(key, given);
  return valid;
}

std::string presented_key(const http_request& request, bool websocket) {
  if (const auto header = request.header("Authorization")) {
    constexpr std::string_view scheme = "Bearer ";
    if (header->size() > scheme.size() && iequals(header->substr(0, scheme.size()), scheme))
      return std::string{header->substr(scheme.size())};
  }
  // A browser's WebSocket can set no header; OpenAI's own clients send the key as a protocol then.
  constexpr std::string_view prefix = "openai-insecure-api-key.";
  if (websocket)
    for (const auto& protocol : offered_protocols(request))
      if (protocol.starts_with(prefix)) return protocol.substr(prefix.size());
  return "";
}

bool offers_responses_protocol(const http_request& request) {
  const auto all = offered_protocols(request);
  return std::find(all.begin(), all.end(), "responses") != all.end();
}

bool origin_is_allowed(const runtime_config& config, const http_request& request) {
  const auto origin = request.header("Origin");
  // Browsers send it with every POST and handshake; who sends none is no page.
  if (!origin) return true;
  for (const auto& pattern : config.allowed_origins)
    if (origin_matches(pattern, *origin)) return true;
  const auto page = parse_origin(*origin);
  const auto host = request.header("Host");
  if (!page || page->host.empty() || !host) return false;
  // The page's scheme says which port stands for none: a proxy in front may speak TLS for us.
  if (parse_host(page->scheme, *host) != page) return false;
  return !config.api_keys.empty() || is_our_host(config, page->host);
}

}  // namespace troupe::net
