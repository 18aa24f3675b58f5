// What --host may be, and how the address is written in a URL. Pure: looks up no name.
#pragma once
#include <string>

namespace troupe {

/// "[::1]" -> "::1"; anything else as it is.
std::string without_brackets(const std::string& host);

/// Why this names no host, in words that say what one is. Empty: it may be one. Takes it without
/// brackets.
std::string host_problem(const std::string& host);

/// As written in a URL that a client on this machine can open: IPv6 in brackets, and this
/// machine's own address where the server listens on every one (0.0.0.0 and :: cannot be
/// connected to).
std::string host_in_url(const std::string& host);

}  // namespace troupe
