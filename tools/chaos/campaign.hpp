// Wave after wave of dying clients beside well-behaved ones, and after each wave the questions that
// must have good answers. Owned by main; one coroutine on the one I/O thread. It judges, and writes
// what it finds into a tally.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "tools/chaos/client.hpp"
#include "tools/chaos/idle_time.hpp"
#include "tools/chaos/kill_matrix.hpp"
#include "tools/chaos/settings.hpp"
#include "tools/chaos/tally.hpp"
#include "tools/client/http_exchange.hpp"
#include "tools/client/metrics_page.hpp"

namespace troupe::chaos {

using api_client::http_exchange;
using api_client::metrics_page;

class campaign {
 public:
  /// `progress` is called after each wave.
  campaign(const settings&, const target&, tally&, std::function<void()> progress);

  /// Throws std::runtime_error when the server cannot be reached, is busy at the start, or stops
  /// answering.
  asio::awaitable<void> run();
  /// Ends the run after the wave under way; it then counts as failed.
  void stop() { stopped_ = true; }

 private:
  using clients = std::vector<std::shared_ptr<client>>;

  asio::awaitable<void> look_before();
  asio::awaitable<void> take_solo_answers();
  asio::awaitable<void> learn_pool_size();
  asio::awaitable<bool> wave();
  asio::awaitable<bool> settle(const end_of_wave&);
  asio::awaitable<void> pool_request();
  asio::awaitable<metrics_page> scrape();
  asio::awaitable<bool> until(std::function<bool()>);

  std::vector<kill_plan> plans_of_wave();
  clients start_neighbours();
  clients start_victims(const std::vector<kill_plan>&, std::size_t begin, std::size_t end,
                        std::uint32_t spread_ms);
  std::shared_ptr<client> start(transport, question, std::optional<kill_plan>,
                                std::uint32_t after_ms);

  void judge_neighbour(std::size_t i, const client&);
  void judge_victim(const client&);
  void judge_idle_time(const end_of_wave&, const metrics_page&);
  void judge_books(const metrics_page&);
  bool idle(const metrics_page&) const;
  void look_at_memory();
  void finish(const metrics_page&);

  std::uint32_t waves_between_pool_requests() const;
  question question_for(const kill_plan&, std::size_t prompt) const;
  question question_of(std::size_t prompt, std::uint32_t tokens) const;
  const std::string& solo(transport, const question&) const;
  bool begins_alike(const client&) const;
  std::string where() const;

  const settings& settings_;
  const target& target_;
  tally& tally_;
  std::function<void()> progress_;
  kill_matrix matrix_;
  http_exchange metrics_;
  asio::steady_timer changed_;
  std::mt19937_64 random_;
  std::vector<std::string> prompts_;
  std::map<std::tuple<transport, std::string, std::uint32_t>, std::string> solo_;
  std::optional<metrics_page> last_idle_page_;
  double books_at_start_ = 0, leaked_at_start_ = 0;
  std::uint32_t context_ = 0;
  bool stopped_ = false;
};

}  // namespace troupe::chaos
