#include "net/http/http_parser.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>

#include "config/origin_pattern.hpp"

namespace troupe::net {

namespace http = boost::beast::http;

struct http_parser::impl {
  http::request_parser<http::string_body> parser;
  api_error error;
  std::uint64_t framing_bytes_max = 0;
  std::size_t searched = 0;  ///< of the input, for the end of the head
  bool continue_answered = false;
};

http_parser::http_parser(std::uint64_t header_bytes_max, std::uint64_t body_bytes_max)
    : impl_{std::make_unique<impl>()} {
  impl_->parser.eager(true);
  impl_->parser.header_limit(static_cast<std::uint32_t>(header_bytes_max));
  impl_->parser.body_limit(body_bytes_max);
  impl_->framing_bytes_max = header_bytes_max;
}

http_parser::~http_parser() = default;

std::size_t empty_lines(std::string_view input) {
  std::size_t bytes = 0;
  while (input.substr(bytes).starts_with("\r\n")) bytes += 2;
  return bytes;
}

namespace {

api_error error_of_parser(const boost::system::error_code& ec) {
  if (ec == http::error::body_limit)
    return {
        .status = 413, .message = "The request body is too large.", .code = "request_too_large"};
  if (ec == http::error::header_limit)
    return {.status = 431,
            .message = "The request's header fields are too large.",
            .code = "request_too_large"};
  return {.status = 400, .message = "Not an HTTP request: " + ec.message() + "."};
}

}  // namespace

parse_state http_parser::feed(std::string& input) {
  auto& p = impl_->parser;
  if (!p.is_header_done() && has_folded_line(input)) {
    impl_->error = {.status = 400, .message = "A header field may not go on over several lines."};
    return parse_state::failed;
  }
  while (!input.empty() && !p.is_done()) {
    boost::system::error_code ec;
    const std::size_t used = p.put(boost::asio::buffer(input), ec);
    input.erase(0, used);
    if (used > 0) impl_->searched = 0;
    if (ec == http::error::need_more) break;
    if (ec) {
      impl_->error = error_of_parser(ec);
      return parse_state::failed;
    }
    if (used == 0) break;
  }
  if (p.is_header_done() && !head_is_understood()) return parse_state::failed;
  if (p.is_done()) return parse_state::done;
  if (!p.is_header_done() && head_is_cut_short(input)) return parse_state::failed;
  // What stays behind is an unfinished line or block of trailers: chunk extensions have no limit of
  // their own.
  if (input.size() > impl_->framing_bytes_max) {
    impl_->error = error_of_parser(http::error::header_limit);
    return parse_state::failed;
  }
  return p.is_header_done() ? parse_state::body : parse_state::head;
}

// Beast joins the lines of a folded field; RFC 9112 (5.2) has servers refuse it, since a proxy in
// front may have read something else. Beast takes a field only when it has seen the next line's
// first byte, so a fold is always in what it has left here.
bool http_parser::has_folded_line(const std::string& input) const {
  if (input.starts_with("\r\n")) return false;  // the end of the head; a body follows
  const std::size_t from = impl_->searched < 3 ? 0 : impl_->searched - 3;
  const std::size_t end = input.find("\r\n\r\n", from);
  return std::min(input.find("\r\n ", from), input.find("\r\n\t", from)) < end;
}

// RFC 9112 (3.2): one Host, which says whom the client means to talk to. Who is let in depends on
// it (auth.cpp), so two of them must not leave a choice.
bool http_parser::host_is_valid() {
  const auto& head = impl_->parser.get();
  const auto count = head.count(http::field::host);
  const auto host = head[http::field::host];
  std::string fault;
  if (count > 1)
    fault = "The request has " + std::to_string(count) + " Host headers, allowed is 1.";
  if (count == 0 && head.version() >= 11) fault = "An HTTP/1.1 request needs a Host header.";
  if (!parse_host("http", {host.data(), host.size()}))
    fault = "The Host header is '" + std::string{host.substr(0, 64)} +
            "', it must be a host name or address with an optional port.";
  if (fault.empty()) return true;
  impl_->error = {.status = 400, .message = fault};
  return false;
}

// A body in an unknown coding would be read as the next request (request smuggling).
bool http_parser::head_is_understood() {
  if (!host_is_valid()) return false;
  const auto& head = impl_->parser.get();
  const auto coding = head[http::field::transfer_encoding];
  if (!coding.empty() && !iequals({coding.data(), coding.size()}, "chunked")) {
    impl_->error = {.status = 400, .message = "Transfer-Encoding may only be 'chunked'."};
    return false;
  }
  const auto expect = head[http::field::expect];
  if (!expect.empty() && !iequals({expect.data(), expect.size()}, "100-continue")) {
    impl_->error = {.status = 417, .message = "Expect may only be '100-continue'."};
    return false;
  }
  return true;
}

// A first line that ends within its version leaves Beast waiting for more of it, although the head
// has ended.
bool http_parser::head_is_cut_short(const std::string& input) {
  const std::size_t from = impl_->searched < 3 ? 0 : impl_->searched - 3;
  impl_->searched = input.size();
  if (input.find("\r\n\r\n", from) == input.npos) return false;
  impl_->error = error_of_parser(http::error::bad_version);
  return true;
}

std::size_t http_parser::body_bytes() const {
  return impl_->parser.get().body().size();
}

bool http_parser::wants_continue() const {
  auto& p = impl_->parser;
  if (impl_->continue_answered || !p.is_header_done() || p.is_done()) return false;
  const auto expect = p.get()[http::field::expect];
  impl_->continue_answered = true;
  return iequals({expect.data(), expect.size()}, "100-continue");
}

namespace {

/// A target that names its host, as proxies are sent it, is served as the path; then its host
/// counts, not the header's (RFC 9112, 3.2.2).
void to_origin_form(http_request& request) {
  const auto uri = boost::urls::parse_uri(request.target);
  if (!uri || (uri->scheme_id() != boost::urls::scheme::http &&
               uri->scheme_id() != boost::urls::scheme::https))
    return;
  std::erase_if(request.headers, [](const auto& field) { return iequals(field.first, "Host"); });
  request.headers.emplace_back("Host", std::string{uri->encoded_host_and_port()});
  std::string path{uri->encoded_path()};
  if (path.empty()) path = "/";
  if (uri->has_query()) path += '?' + std::string{uri->encoded_query()};
  request.target = std::move(path);
}

}  // namespace

http_request http_parser::take() {
  auto message = impl_->parser.release();
  http_request request;
  request.method.assign(message.method_string().data(), message.method_string().size());
  request.target.assign(message.target().data(), message.target().size());
  request.http_1_0 = message.version() < 11;
  request.keep_alive = message.keep_alive();
  for (const auto& field : message)
    request.headers.emplace_back(std::string{field.name_string()}, std::string{field.value()});
  request.body = std::move(message.body());
  to_origin_form(request);
  return request;
}

const api_error& http_parser::error() const {
  return impl_->error;
}

}  // namespace troupe::net
