// One generating HTTP request from its first submit to its last byte: when the status line goes
// out, what follows, and what an error looks like at each point. Lives on the connection's strand
// and writes through reply_port; never touches a socket.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/api/reply_encoder.hpp"
#include "net/http/http_routes.hpp"
#include "net/server/exchange.hpp"

namespace troupe::net {

/// The connection as a reply writes to it. Calls only queue bytes.
class reply_port {
 public:
  virtual ~reply_port() = default;
  virtual void send_whole(http_reply) = 0;
  virtual void send_stream_head(header_list) = 0;
  /// `credit`: the choice to report to on_written once these bytes have left, or
  /// outbound::no_credit.
  virtual void send_chunk(std::string, std::size_t credit) = 0;
  virtual void send_stream_end() = 0;
};

class generation_reply {
 public:
  generation_reply(route_context&, api_request, std::uint64_t serial, reply_port&);

  void start(const std::weak_ptr<event_receiver>&);
  void on_event(std::size_t choice, generation_event);
  void on_written(std::size_t choice);
  /// The connection is over. Cancels what still runs.
  void cancel(core::end_reason, core::time_us seen_at);

  std::uint64_t serial() const { return exchange_.serial(); }
  bool done() const { return done_; }  ///< nothing more will be written
  bool streaming() const { return open_ && !done_; }
  bool is_stream() const { return stream_; }
  core::life_phase phase() const { return exchange_.phase(); }

 private:
  void accepted(std::size_t choice);
  void delta(std::size_t choice, core::generation_delta);
  void end(std::size_t choice, core::generation_end);
  void open_when_accepted();
  void send_delta(std::size_t choice, const core::generation_delta&);
  void send_end(std::size_t choice, const core::generation_end&);
  void fail(const api_error&);
  void finish_whole();
  header_list id_header() const;

  struct held {
    std::optional<core::generation_delta> delta;
    std::optional<core::generation_end> end;
  };
  route_context& context_;
  reply_port& port_;
  const char* prompt_field_;
  bool stream_;
  std::uint32_t n_;  // choices of each prompt
  bool open_ = false, done_ = false;
  exchange exchange_;
  std::unique_ptr<reply_encoder> encoder_;
  std::vector<core::generation_request> prompts_;  // until the start
  std::vector<held> held_;                         ///< what arrived before the status line
  std::size_t ends_sent_ = 0;
};

}  // namespace troupe::net
