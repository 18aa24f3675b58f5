// One HTTP/1 reply from bytes as they arrive: its head, then its body by whichever framing it has.
// Beast's parser behind a narrow face, so that one file pays for it. Fed from the connection's own
// buffer; what stands behind the reply stays there. Never reads a socket.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::api_client {

class http_reader {
 public:
  using body_call = std::function<void(std::string_view)>;

  /// The reply to a HEAD request has no body, whatever its fields say.
  explicit http_reader(bool answers_head = false);
  ~http_reader();
  http_reader(http_reader&&) noexcept;
  http_reader& operator=(http_reader&&) noexcept;

  /// Takes what it can from the front of `input` and calls with each piece of the body, as soon as
  /// it is there. Throws std::runtime_error for bytes that are no HTTP/1 reply.
  void feed(std::string& input, const body_call&);
  /// The server has closed: the end of a body that has no other mark.
  void end_of_stream();

  /// 0 until the whole head is there. Interim replies (1xx) are passed over, but for 101.
  int status() const;
  bool complete() const;
  bool upgraded() const { return status() == 101; }
  /// Of the first field of this name in any case; empty when there is none.
  std::string_view header(std::string_view name) const;
  /// In the order of the reply.
  const std::vector<std::pair<std::string, std::string>>& headers() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe::api_client
