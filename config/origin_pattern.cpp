#include "config/origin_pattern.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace troupe {
namespace {

std::string lower(std::string_view text) {
  std::string out{text};
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_alnum(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

bool is_scheme(std::string_view text) {
  return !text.empty() && std::isalpha(static_cast<unsigned char>(text.front())) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alnum(c) || c == '+' || c == '-' || c == '.'; });
}

/// Names, addresses and the identifiers of browser extensions. What else a URI allows in a host
/// no browser writes into an origin.
bool is_host(std::string_view text) {
  const auto name = [](char c) { return is_alnum(c) || c == '-' || c == '.' || c == '_'; };
  if (text.starts_with('['))
    return text.ends_with(']') && text.size() > 2 &&
           std::all_of(text.begin() + 1, text.end() - 1, [](char c) {
             return std::isxdigit(static_cast<unsigned char>(c)) || c == ':' || c == '.';
           });
  return std::all_of(text.begin(), text.end(), name);
}

/// As browsers write it: digits without a leading zero.
bool is_port(std::string_view text) {
  if (text.size() > 1 && text.front() == '0') return false;
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() && port <= 65535;
}

std::string default_port(std::string_view scheme) {
  if (scheme == "http" || scheme == "ws") return "80";
  return scheme == "https" || scheme == "wss" ? "443" : "";
}

struct host_and_port {
  std::string_view host;
  std::optional<std::string_view> port;
};

/// At the colon behind the host, not at one of an IPv6 address.
host_and_port split(std::string_view text) {
  const std::size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  const std::size_t colon = bracket == text.npos ? text.npos : text.find(':', bracket);
  if (colon == text.npos) return {text, std::nullopt};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

/// Scheme and the rest, where there is one.
std::optional<std::pair<std::string, std::string_view>> split_scheme(std::string_view text) {
  const std::size_t mark = text.find("://");
  if (mark == text.npos || !is_scheme(text.substr(0, mark))) return std::nullopt;
  return std::pair{lower(text.substr(0, mark)), text.substr(mark + 3)};
}

/// A host of a pattern: `*`, `*.` before a name, or a name.
bool is_host_pattern(std::string_view text) {
  if (text == "*") return true;
  if (text.starts_with("*.")) return text.size() > 2 && is_host(text.substr(2));
  return is_host(text);
}

bool host_matches(std::string_view pattern, std::string_view host) {
  if (pattern == "*") return true;
  if (!pattern.starts_with("*.")) return pattern == host;
  // At least one label stands for the `*`; the dot stays, so that no longer name ends alike.
  const std::string_view behind = pattern.substr(1);
  return host.size() > behind.size() && host.ends_with(behind);
}

}  // namespace

// Hosts and schemes know no case (RFC 3986, 6.2.2.1); everything behind compares lower case.
std::optional<web_origin> parse_host(std::string_view scheme, std::string_view host_and_port) {
  const auto [host, port] = split(host_and_port);
  const bool has_port = port && !port->empty();  // RFC 3986 lets the digits be missing
  if (!is_host(host) || (has_port && !is_port(*port))) return std::nullopt;
  const std::string small = lower(scheme);
  return web_origin{small, lower(host), has_port ? std::string{*port} : default_port(small)};
}

std::optional<web_origin> parse_origin(std::string_view text) {
  const auto parts = split_scheme(text);
  if (!parts) return std::nullopt;
  return parse_host(parts->first, parts->second);
}

bool origin_matches(std::string_view pattern, std::string_view origin) {
  if (pattern == "*") return true;
  // Pages from files and sandboxed frames all say null: it must be allowed by name, not by a
  // pattern for hosts.
  if (origin == "null") return lower(pattern) == "null";
  const auto allowed = split_scheme(pattern);
  const auto given = parse_origin(origin);
  if (!allowed || !given || allowed->first != given->scheme) return false;
  const auto [host, port] = split(allowed->second);
  if (!host_matches(lower(host), given->host)) return false;
  // Every host of a scheme (`app://*`) is every port, too: such origins seldom have one.
  if (port ? *port == "*" : host == "*") return true;
  return given->port == (port ? std::string{*port} : default_port(given->scheme));
}

std::string origin_pattern_problem(std::string_view pattern) {
  if (pattern == "*" || lower(pattern) == "null") return "";
  const std::string shown = "'" + std::string{pattern} + "' matches no page: ";
  const auto parts = split_scheme(pattern);
  if (!parts)
    return shown +
           "an origin is scheme://host or scheme://host:port, as in http://localhost:3000; "
           "'null' and '*' stand alone";
  if (const std::size_t path = parts->second.find_first_of("/?#"); path != std::string_view::npos)
    return shown + "an origin has no path; write " + parts->first + "://" +
           std::string{parts->second.substr(0, path)};
  const auto [host, port] = split(parts->second);
  const bool nameless = host.empty() && !default_port(parts->first).empty();  // file:// has no host
  if (nameless || !is_host_pattern(host))
    return shown + "the host '" + std::string{host} +
           "' must be a name, an address, '*', or '*.' before a name";
  if (port && *port != "*" && !is_port(*port))
    return shown + "the port '" + std::string{*port} + "' must be 0 to 65535 or '*'";
  return "";
}

}  // namespace troupe
