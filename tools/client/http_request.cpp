#include "tools/client/http_request.hpp"

#include <fmt/format.h>

#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <stdexcept>

namespace troupe::api_client {
namespace {

std::string request_head(const server_address& at, std::string_view method, std::string_view path,
                         std::string_view more_headers) {
  const bool ipv6 = at.host.find(':') != std::string::npos;  // in brackets, or its colons are ports
  return fmt::format("{} {}{} HTTP/1.1\r\nHost: {}{}{}:{}\r\n{}{}", method, at.base, path,
                     ipv6 ? "[" : "", at.host, ipv6 ? "]" : "", at.port,
                     at.api_key.empty() ? "" : "Authorization: Bearer " + at.api_key + "\r\n",
                     more_headers);
}

}  // namespace

server_address parse_url(const std::string& url) {
  const auto refuse = [&](std::string_view why) {
    return std::invalid_argument(
        fmt::format("URL '{}': {} (wanted: http://HOST[:PORT][/BASE])", url, why));
  };
  const auto parsed = boost::urls::parse_uri(url);
  if (!url.starts_with("http://")) throw refuse("only http is spoken here");
  if (!parsed) throw refuse(parsed.error().message());
  if (parsed->has_userinfo() || parsed->has_query() || parsed->has_fragment())
    throw refuse("a user, a query or a fragment has no use here");
  server_address out;
  out.host = parsed->host_address();
  if (out.host.empty()) throw refuse("no host");
  if (parsed->has_port()) out.port = parsed->port_number();
  out.base = std::string{parsed->encoded_path()};
  // Boost takes what follows the digits of a port for a path.
  if (out.port == 0 || (!out.base.empty() && !out.base.starts_with('/')))
    throw refuse("the port must be a number from 1 to 65535");
  while (out.base.ends_with('/')) out.base.pop_back();
  // Clients of this API are often given the address with its version.
  if (out.base.ends_with("/v1")) out.base.resize(out.base.size() - 3);
  return out;
}

std::string get_text(const server_address& at, std::string_view path,
                     std::string_view more_headers) {
  return request_head(at, "GET", path, more_headers) + "\r\n";
}

std::string post_text(const server_address& at, std::string_view path, std::string_view json,
                      std::string_view more_headers) {
  return fmt::format("{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                     request_head(at, "POST", path, more_headers), json.size(), json);
}

}  // namespace troupe::api_client
