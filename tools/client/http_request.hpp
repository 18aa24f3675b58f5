// What a client sends over HTTP, as bytes, so that it can stop after any of them. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::api_client {

/// Where the server is and how it wants to be asked.
struct server_address {
  std::string host;  ///< an IPv6 address without its brackets
  std::uint16_t port = 80;
  std::string base;     ///< path in front of /v1, without a slash at its end
  std::string api_key;  ///< none when empty
  std::string model;    ///< not sent when empty
};

/// Throws std::invalid_argument for anything but http://HOST[:PORT][/BASE][/v1].
server_address parse_url(const std::string& url);

/// `more_headers`: whole lines, each with its CRLF.
std::string get_text(const server_address&, std::string_view path,
                     std::string_view more_headers = {});
std::string post_text(const server_address&, std::string_view path, std::string_view json,
                      std::string_view more_headers = {});

}  // namespace troupe::api_client
