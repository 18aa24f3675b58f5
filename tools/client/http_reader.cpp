#include "tools/client/http_reader.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <optional>
#include <stdexcept>

namespace troupe::api_client {

namespace http = boost::beast::http;
using boost::beast::string_view;
using boost::system::error_code;

namespace {

constexpr std::uint32_t head_bytes_max = 64 << 10;

/// Hands on what Beast finds, without a message of its own in between: a stream's body must be seen
/// when it comes, not when it is whole.
class reply_parser : public http::basic_parser<false> {
 public:
  explicit reply_parser(bool answers_head) {
    eager(true);  // as much of a body as there is, at once
    header_limit(head_bytes_max);
    body_limit(boost::none);
    skip(answers_head);
  }

  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;
  const http_reader::body_call* on_body = nullptr;

 private:
  std::size_t pass_on(string_view piece) {
    (*on_body)({piece.data(), piece.size()});
    return piece.size();
  }

  void on_request_impl(http::verb, string_view, string_view, int, error_code&) override {}
  void on_response_impl(int code, string_view, int, error_code&) override { status = code; }
  void on_field_impl(http::field, string_view name, string_view value, error_code&) override {
    // A trailer is not a field of the head (RFC 9110, 6.5).
    if (!is_header_done()) headers.emplace_back(std::string{name}, std::string{value});
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view body, error_code&) override { return pass_on(body); }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view body, error_code&) override {
    return pass_on(body);
  }
  void on_finish_impl(error_code&) override {}
};

bool is_interim(const reply_parser& reply) {
  return reply.is_done() && reply.status / 100 == 1 && reply.status != 101;
}

}  // namespace

struct http_reader::impl {
  explicit impl(bool head) : answers_head{head} { parser.emplace(head); }
  bool answers_head;
  std::optional<reply_parser> parser;  // one for each reply: Beast's cannot be used again
};

http_reader::http_reader(bool answers_head) : impl_{std::make_unique<impl>(answers_head)} {}
http_reader::~http_reader() = default;
http_reader::http_reader(http_reader&&) noexcept = default;
http_reader& http_reader::operator=(http_reader&&) noexcept = default;

void http_reader::feed(std::string& input, const body_call& on_body) {
  while (!input.empty() && !complete()) {
    auto& parser = *impl_->parser;
    parser.on_body = &on_body;
    error_code error;
    const auto used = parser.put(boost::asio::buffer(input), error);
    input.erase(0, used);
    if (error && error != http::error::need_more)
      throw std::runtime_error("no HTTP/1 reply: " + error.message());
    if (is_interim(parser))
      impl_->parser.emplace(impl_->answers_head);
    else if (error || used == 0)
      return;
  }
}

void http_reader::end_of_stream() {
  error_code cut;
  if (impl_->parser->is_header_done() && !complete()) impl_->parser->put_eof(cut);
}

int http_reader::status() const {
  return impl_->parser->is_header_done() ? impl_->parser->status : 0;
}

bool http_reader::complete() const {
  return impl_->parser->is_done();
}

std::string_view http_reader::header(std::string_view name) const {
  for (const auto& [key, value] : headers())
    if (boost::beast::iequals(key, string_view{name.data(), name.size()})) return value;
  return {};
}

const std::vector<std::pair<std::string, std::string>>& http_reader::headers() const {
  return impl_->parser->headers;
}

}  // namespace troupe::api_client
