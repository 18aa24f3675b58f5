#include "net/http/http_message.hpp"

#include <algorithm>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/url/pct_string_view.hpp>
#include <cctype>
#include <ctime>

namespace troupe::net {
namespace {

namespace http = boost::beast::http;

/// RFC 9110 (5.6.7): the fixed format, in GMT and English; nothing sets this process's locale.
std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[40];
  const std::size_t n = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text, n};
}

}  // namespace

// Field names and scheme words are ASCII (RFC 9110, 5.1), so a byte-wise comparison is enough.
bool iequals(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return std::tolower(static_cast<unsigned char>(x)) ==
                  std::tolower(static_cast<unsigned char>(y));
         });
}

// By Beast's reading of RFC 9110 (5.6.1): empty members are passed over.
std::optional<std::vector<std::string>> token_list(std::string_view value) {
  const http::opt_token_list tokens{{value.data(), value.size()}};
  if (!http::validate_list(tokens)) return std::nullopt;
  std::vector<std::string> names;
  for (const auto token : tokens) names.emplace_back(token.data(), token.size());
  return names;
}

std::optional<std::string_view> http_request::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (iequals(key, name)) return value;
  return std::nullopt;
}

std::optional<std::string> http_request::path() const {
  // The query is cut off first: an escaped `?` belongs to the path.
  const auto raw = std::string_view{target}.substr(0, target.find('?'));
  const auto escaped = boost::urls::make_pct_string_view({raw.data(), raw.size()});
  if (!escaped) return std::nullopt;
  return escaped->decode();
}

// Both fields are lists (RFC 9110, 7.8): browsers send "keep-alive, Upgrade".
bool http_request::is_upgrade() const {
  const auto connection = header("Connection");
  const auto upgrade = header("Upgrade");
  const auto lists = [](std::string_view value, const char* token) {
    return http::token_list{{value.data(), value.size()}}.exists(token);
  };
  return connection && upgrade && lists(*connection, "upgrade") && lists(*upgrade, "websocket");
}

// What an error says in fields, beside its body.
http_reply error_reply(const api_error& e) {
  http_reply reply{.status = e.status, .headers = {}, .body = error_body(e)};
  if (e.retry_after_s) reply.headers.emplace_back("Retry-After", std::to_string(*e.retry_after_s));
  // Read by OpenAI's clients, which otherwise repeat most errors by themselves.
  if (e.never_retry) reply.headers.emplace_back("x-should-retry", "false");
  // A 401 must carry one (RFC 9110, 11.6.1).
  if (e.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

// Only what this server sends.
const char* reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 426:
      return "Upgrade Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Status";
  }
}

std::string reply_head(int status, const header_list& headers) {
  std::string head = "HTTP/1.1 " + std::to_string(status) + " " + reason_phrase(status) + "\r\n";
  // A server with a clock must send it (RFC 9110, 6.6.1).
  head += "Date: " + http_date() + "\r\n";
  for (const auto& [key, value] : headers) head += key + ": " + value + "\r\n";
  return head + "\r\n";
}

}  // namespace troupe::net
