// A client on a plain Asio socket: sends what a test writes, reads with a time limit (by the
// readers of tools/client), leaves in every way a client can. Throws when 20 seconds pass without
// an answer.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "net/server/server.hpp"
#include "tests/net/fake_engine.hpp"
#include "tools/client/ws_reader.hpp"

namespace troupe::net::test {

struct reply {
  int status = 0;
  std::string head;  ///< its fields, a line each
  std::string body;
  std::string header(const std::string& name) const;  ///< empty when absent
};

/// A whole message, or a control frame.
struct ws_frame : api_client::ws_message {
  int close_code() const;
};

class test_client {
 public:
  explicit test_client(std::uint16_t port, int receive_buffer = 0);

  void send(const std::string& bytes);
  /// A whole reply, by Content-Length or chunks, or up to the end of the connection. Interim ones
  /// (1xx) are passed over.
  reply read_reply(bool is_head = false);
  /// Reads until `text` has been seen; answers everything read so far and not consumed.
  std::string read_until(const std::string& text);
  bool closed_by_peer();  ///< reads on to the end; false when 20 seconds pass
  /// Everything up to the end of the connection; throws when 20 seconds pass without a byte.
  std::string read_to_end();
  /// Reads at most `most` bytes that are there already or come within the time; how many came.
  std::size_t read_some(std::size_t most, std::chrono::milliseconds within);

  void close();  ///< FIN
  void reset();  ///< RST
  void half_close();
  /// The cable is pulled: nothing reaches this side any more, not even what its kernel would
  /// acknowledge.
  void fall_silent();

  /// As send(), but false when the server has closed instead.
  bool try_send(const std::string& bytes);
  /// As much as the kernel takes within the time, from a peer that may not read.
  void send_some(const std::string& bytes, std::chrono::milliseconds within);
  reply upgrade(const std::string& more_headers = "");
  void send_ws(const std::string& payload, int opcode = 1);
  ws_frame read_ws();

 private:
  bool fill();  ///< false at the end of the connection
  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_{io_};
  std::string in_;
  api_client::ws_reader frames_;
};

std::string post(const std::string& path, const std::string& json,
                 const std::string& more_headers = "");
std::string get(const std::string& path, const std::string& more_headers = "",
                const std::string& method = "GET");
/// The JSON of each `data:` line, in order.
std::vector<std::string> sse_data(const std::string& body);
bool contains(const std::string& text, const std::string& part);

/// Engine, metrics and a started server on a free port.
struct running_server {
  explicit running_server(runtime_config config = {});
  ~running_server() { server_under_test.stop(); }
  fake_engine engine;
  metrics counters;
  server server_under_test;
  std::uint16_t port = 0;
};

}  // namespace troupe::net::test
