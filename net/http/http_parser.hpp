// Bytes to requests: Beast's parser behind a narrow face, so that one file pays for it. Fed from
// the connection's own buffer; bytes behind a request stay with the caller. Never reads a socket.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "net/http/http_message.hpp"

namespace troupe::net {

enum class parse_state : std::uint8_t { head, body, done, failed };

/// Bytes of the empty lines that may stand before a request.
std::size_t empty_lines(std::string_view input);

class http_parser {
 public:
  http_parser(std::uint64_t header_bytes_max, std::uint64_t body_bytes_max);
  ~http_parser();

  /// Takes what it can from the front of `input`. After done or failed: take() or error(), then a
  /// new parser.
  parse_state feed(std::string& input);
  std::size_t body_bytes() const;  ///< that have come
  bool wants_continue() const;     ///< Expect: 100-continue, and the body has not begun
  http_request take();
  const api_error& error() const;

 private:
  bool has_folded_line(const std::string& input) const;
  bool host_is_valid();
  bool head_is_understood();
  bool head_is_cut_short(const std::string& input);

  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe::net
