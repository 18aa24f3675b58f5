// The origins of web pages, as a browser names them in `Origin` and as `--allowed-origins` allows
// them. An origin is compared part by part (scheme, host, port), never as text, so that no pattern
// matches more than it says. Pure; owns nothing.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// `scheme://host[:port]` taken apart; all letters small.
struct web_origin {
  std::string scheme, host;  ///< an IPv6 address with its brackets; "" as in `file://`
  std::string port;          ///< the scheme's default when none is written; "" where it has none

  bool operator==(const web_origin&) const = default;
};

/// What `Origin` holds; nothing for "null" and for text that is no origin (with a path, a user,
/// ..).
std::optional<web_origin> parse_origin(std::string_view);

/// A host with an optional port, as `Host` holds it, for a page of `scheme`.
std::optional<web_origin> parse_host(std::string_view scheme, std::string_view host_and_port);

/// Whether `pattern` allows the page that sent `origin`. Patterns: `*` (every page), `null`, an
/// origin, and an origin with `*` for the port, for the first label of the host, or for the whole
/// host (`http://localhost:*`, `https://*.example.org`, `app://*`).
bool origin_matches(std::string_view pattern, std::string_view origin);

/// Why no page can ever match `pattern`, with what to write instead; empty when one can.
std::string origin_pattern_problem(std::string_view pattern);

}  // namespace troupe
