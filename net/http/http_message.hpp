// An HTTP request and reply as plain values, without Beast: what the routes work on. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/api/api_error.hpp"

namespace troupe::net {

using header_list = std::vector<std::pair<std::string, std::string>>;

struct http_request {
  std::string method, target;  ///< the path with its query, whichever form was sent
  bool http_1_0 = false;
  bool keep_alive = true;
  header_list headers;
  std::string body;

  /// Case-insensitive; the first of several.
  std::optional<std::string_view> header(std::string_view name) const;
  /// The target without its query, percent-decoded. Nothing when an escape is broken.
  std::optional<std::string> path() const;
  bool is_upgrade() const;
};

struct http_reply {
  int status = 200;
  header_list headers;
  std::string body;
  std::string content_type = "application/json";
};

http_reply error_reply(const api_error&);
const char* reason_phrase(int status);
bool iequals(std::string_view, std::string_view);
/// The names of a comma-separated header value (RFC 9110 `#token`); nothing when it is no such
/// list.
std::optional<std::vector<std::string>> token_list(std::string_view);

/// Status line and headers with the blank line.
std::string reply_head(int status, const header_list&);

}  // namespace troupe::net
