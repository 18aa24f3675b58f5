// One client from connect to end: well-behaved without a plan, otherwise it dies as planned or
// outlives its moment. Owned by a wave; lives on the one I/O thread. It judges nothing: what it
// read and how it ended is for the campaign.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tools/chaos/request_text.hpp"
#include "tools/client/answer_reader.hpp"
#include "tools/client/connection.hpp"
#include "tools/client/http_exchange.hpp"

namespace troupe::chaos {

namespace asio = boost::asio;
using api_client::answer_reader;
using api_client::connection;
using api_client::target;

using clock = std::chrono::steady_clock;
inline double ms_between(clock::time_point from, clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

class client : public std::enable_shared_from_this<client> {
 public:
  client(const target&, transport, question, std::optional<kill_plan>,
         std::chrono::milliseconds start_after, std::function<void()> changed);

  /// Starts it; `changed` is called at its first event, its death and its end.
  void start();
  /// The end of the wave: whoever still lingers closes. Returns whether there was something to
  /// close.
  bool release();

  bool struck() const { return struck_; }
  /// Nothing more happens unless `release` makes it.
  bool settled() const { return over_ || struck_; }
  bool over() const { return over_; }
  bool survived() const { return over_ && !struck_ && failure().empty(); }
  /// Why it neither died nor got its answer; empty otherwise.
  std::string failure() const;
  bool refused() const { return !struck_ && reader_.status() == 503; }

  /// When it was killed, or closed, or had its answer.
  clock::time_point gone_at() const { return gone_at_; }
  const answer_reader& reader() const { return reader_; }
  const std::optional<kill_plan>& plan() const { return plan_; }
  const question& asked() const { return question_; }
  transport over_what() const { return transport_; }

 private:
  asio::awaitable<void> run();
  asio::awaitable<void> converse();
  asio::awaitable<void> send_request();
  asio::awaitable<void> read_answer();
  asio::awaitable<void> read_once();
  void arm();
  void strike();
  bool dies_by(moment when) const { return plan_ && plan_->when == when; }

  const target& target_;
  transport transport_;
  question question_;
  std::optional<kill_plan> plan_;
  std::chrono::milliseconds start_after_;
  std::function<void()> changed_;
  connection connection_;
  answer_reader reader_;
  asio::steady_timer moment_, linger_;
  bool struck_ = false, over_ = false, released_ = false;
  std::string error_;
  clock::time_point gone_at_{};
};

}  // namespace troupe::chaos
