#include "config/checks/host_address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <optional>

namespace troupe {
namespace {

/// With or without a zone: "fe80::1%eth0".
std::optional<in6_addr> as_ipv6(const std::string& host) {
  in6_addr address{};
  if (inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &address) != 1) return {};
  return address;
}

/// One colon with digits behind it; an IPv6 address has two or more.
bool names_a_port(const std::string& host) {
  const auto colon = host.find(':');
  return colon != host.npos && colon == host.rfind(':') && colon + 1 < host.size() &&
         std::all_of(host.begin() + static_cast<std::ptrdiff_t>(colon) + 1, host.end(),
                     [](unsigned char ch) { return std::isdigit(ch); });
}

}  // namespace

std::string without_brackets(const std::string& host) {
  const bool both = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  return both ? host.substr(1, host.size() - 2) : host;
}

std::string host_problem(const std::string& host) {
  if (host.empty()) return "an empty address would be every address; 0.0.0.0 says so";
  const auto quoted = "'" + host + "' ";
  // Common in other servers' configurations, so it gets an answer of its own.
  if (host == "*") return quoted + "is no address; 0.0.0.0 is every IPv4 address, :: every address";
  constexpr const char* what_a_host_is =
      "a host is an address or a name alone, such as 127.0.0.1, ::1 or localhost";
  if (host.find('/') != host.npos)
    return quoted + "is a URL or a path; " + what_a_host_is + ", and --port is the port";
  if (as_ipv6(host)) return {};
  if (names_a_port(host))
    return quoted + "names a port as well; " + what_a_host_is + ", and --port is the port";
  const bool name = std::all_of(host.begin(), host.end(), [](unsigned char ch) {
    return std::isalnum(ch) || ch == '.' || ch == '-' || ch == '_';
  });
  return name ? std::string() : quoted + "is no host; " + what_a_host_is;
}

std::string host_in_url(const std::string& host) {
  // An address to listen on is none to connect to; the printed URL must work when it is copied.
  if (host == "0.0.0.0") return "127.0.0.1";
  const auto address = as_ipv6(host);
  if (!address) return host;
  if (IN6_IS_ADDR_UNSPECIFIED(&*address)) return "[::1]";
  // The sign before a zone is an escape of URLs itself (RFC 6874).
  const auto zone = host.find('%');
  return "[" + (zone == host.npos ? host : host.substr(0, zone) + "%25" + host.substr(zone + 1)) +
         "]";
}

}  // namespace troupe
