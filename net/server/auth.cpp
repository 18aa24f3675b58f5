#include "net/server/auth.hpp"

#include <arpa/inet.h>

#include <algorithm>

namespace troupe::net {
namespace {

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
  for (const auto& [key, value] : request.headers)
    if (iequals(key, "Sec-WebSocket-Protocol"))
      for (auto& item : split_list(value)) all.push_back(std::move(item));
  return all;
}

std::string_view host_of_origin(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  return scheme == origin.npos ? origin : origin.substr(scheme + 3);
}

/// "[::1]:80" -> "::1", "name:80" -> "name".
std::string without_port(std::string_view host) {
  if (!host.empty() && host.front() == '[') return std::string{host.substr(1, host.find(']') - 1)};
  return std::string{host.substr(0, host.rfind(':'))};
}

/// A literal address, localhost, the configured host, the host of an allowed origin.
bool is_ours(const runtime_config& config, std::string_view with_port) {
  const std::string host = without_port(with_port);
  unsigned char address[16];
  if (::inet_pton(AF_INET, host.c_str(), address) == 1 ||
      ::inet_pton(AF_INET6, host.c_str(), address) == 1)
    return true;
  if (iequals(host, "localhost") || iequals(host, config.host)) return true;
  return std::any_of(
      config.allowed_origins.begin(), config.allowed_origins.end(),
      [&](const auto& allowed) { return iequals(without_port(host_of_origin(allowed)), host); });
}

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
  for (const auto& key : keys) valid |= equal_in_constant_time(key, given);
  return valid;
}

std::string presented_key(const http_request& request, bool websocket) {
  if (const auto header = request.header("Authorization")) {
    constexpr std::string_view scheme = "Bearer ";
    if (header->size() > scheme.size() && iequals(header->substr(0, scheme.size()), scheme))
      return std::string{header->substr(scheme.size())};
  }
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
  if (!origin) return true;
  for (const auto& allowed : config.allowed_origins)
    if (allowed == "*" || iequals(allowed, *origin)) return true;
  const auto host = request.header("Host");
  return host && iequals(host_of_origin(*origin), *host) &&
         (!config.api_keys.empty() || is_ours(config, *host));
}

}  // namespace troupe::net
