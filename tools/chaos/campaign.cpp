#include "tools/chaos/campaign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <stdexcept>

#include "tools/chaos/pool_request.hpp"

namespace troupe::chaos {
namespace {

constexpr std::size_t prompt_count = 4;

std::string words(std::uint32_t count, std::mt19937_64& random) {
  constexpr std::array vocabulary{"the",   "river", "and",      "small",  "house", "near",
                                  "green", "hills", "where",    "people", "often", "talk",
                                  "about", "old",   "children", "play"};
  std::string text;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i > 0) text += ' ';
    text += vocabulary[random() % vocabulary.size()];
  }
  return text;
}

template <typename Range, typename Predicate>
bool all(const Range& range, Predicate p) {
  return std::all_of(range.begin(), range.end(), p);
}

}  // namespace

campaign::campaign(const settings& s, const target& to, tally& t, std::function<void()> progress)
    : settings_{s},
      target_{to},
      tally_{t},
      progress_{std::move(progress)},
      matrix_{s.transports, s.manners, s.by, s.seed},
      metrics_{to},
      changed_{to.io},
      random_{s.seed} {
  // Two short prompts, and two that begin alike for several blocks: what they share must outlive
  // either's death.
  const auto shared = words(s.prompt_words, random_);
  for (std::size_t i = 0; i < prompt_count; ++i)
    prompts_.push_back(i < 2 ? words(5, random_) : shared + " " + words(5, random_));
}

question campaign::question_of(std::size_t prompt, std::uint32_t tokens) const {
  return {prompts_[prompt], tokens, prompt % 2 == 1, settings_.seed + prompt};
}

std::string campaign::where() const {
  return fmt::format("wave {}", tally_.waves + 1);
}

asio::awaitable<void> campaign::run() {
  co_await look_before();
  co_await take_solo_answers();
  co_await learn_pool_size();
  std::uint64_t fruitless = 0;
  bool going_on = true;
  while (going_on && !stopped_ && tally_.kills < settings_.kills) {
    const auto began = clock::now();
    const auto before = tally_.kills;
    going_on = co_await wave();
    ++tally_.waves;
    tally_.cells = matrix_.cells();
    tally_.seconds += ms_between(began, clock::now()) / 1000;
    fruitless = tally_.kills == before ? fruitless + 1 : 0;
    if (fruitless == 20) {
      tally_.fail("20 waves without a kill: every client was refused or outlived its moment");
      going_on = false;
    }
    const auto every = waves_between_pool_requests();
    const bool first_look = tally_.kills >= settings_.rss_after && !tally_.rss_first;
    // Before both looks, so that its long prefill has had its working memory at either.
    const bool due = every > 0 && (first_look || tally_.waves % every == 0);
    if (going_on && due && tally_.kills < settings_.kills) co_await pool_request();
    if (first_look) look_at_memory();
    progress_();
  }
  if (stopped_) tally_.fail(fmt::format("stopped by a signal after {} kills", tally_.kills));
  const bool large = waves_between_pool_requests() == 0;
  if (large) look_at_memory();
  if (going_on && !stopped_) co_await pool_request();
  if (!large) look_at_memory();
  finish(co_await scrape());
}

/// 0: at the end only, because it takes long.
std::uint32_t campaign::waves_between_pool_requests() const {
  const auto by_size = tally_.pool_tokens <= 512 ? 1u : tally_.pool_tokens <= 4096 ? 20u : 0u;
  return settings_.pool_request_every.value_or(by_size);
}

asio::awaitable<metrics_page> campaign::scrape() {
  const std::chrono::seconds patience{std::max(30u, *settings_.idle_timeout_s)};
  const auto reply = co_await metrics_.ask(get_text(target_.address, "/metrics"), patience);
  if (!reply.complete())
    throw std::runtime_error(fmt::format("the metrics page: {}", reply.error()));
  metrics_page page{reply.body()};
  if (!page.value(settings_.metrics.running))
    throw std::runtime_error(
        fmt::format("the metrics page has no '{}': is --target right?", settings_.metrics.running));
  co_return page;
}

bool campaign::idle(const metrics_page& page) const {
  const auto& names = settings_.metrics;
  return page.value(names.running).value_or(0) == 0 && page.value(names.waiting).value_or(0) == 0 &&
         page.value(names.used).value_or(0) == 0;
}

asio::awaitable<void> campaign::look_before() {
  const auto page = co_await scrape();
  const auto& names = settings_.metrics;
  if (!idle(page))
    throw std::runtime_error(
        "the server is not idle: other clients would be counted as its faults");
  const auto allocated = page.value(names.allocated), released = page.value(names.released);
  if (allocated && released) {
    books_at_start_ = *allocated - *released;
    tally_.blocks_lost = 0;
  }
  if (const auto leaked = page.value(names.leaked)) {
    leaked_at_start_ = *leaked;
    tally_.blocks_leaked = 0;
  }
  if (page.value(names.steps)) tally_.tokens_for_nobody = 0;
  tally_.idle_limit_ms = idle_limit_ms(settings_.idle_limit_ms, settings_.max_step_ms, {});
}

/// Behind the solo answers: a server may not tell of its pool before the first request has used it.
asio::awaitable<void> campaign::learn_pool_size() {
  const auto page = co_await scrape();
  const auto blocks = page.value(settings_.metrics.total).value_or(0);
  tally_.pool_tokens = settings_.pool_tokens > 0
                           ? settings_.pool_tokens
                           : static_cast<std::uint32_t>(blocks) * settings_.block_size;
  context_ = settings_.context > 0 ? settings_.context : co_await context_of_card(target_);
}

asio::awaitable<void> campaign::take_solo_answers() {
  for (const auto over : settings_.transports)
    for (std::size_t prompt = 0; prompt < prompt_count; ++prompt)
      for (const auto tokens : {settings_.max_tokens, settings_.neighbour_tokens}) {
        const auto asked = question_of(prompt, tokens);
        const auto one = start(over, asked, std::nullopt, 0);
        if (!co_await until([&] { return one->over(); }))
          throw std::runtime_error(
              fmt::format("a solo answer over {} did not end in time", name_of(over)));
        if (!one->survived())
          throw std::runtime_error(
              fmt::format("a solo answer over {} failed: {}", name_of(over), one->failure()));
        solo_[{over, asked.prompt, tokens}] = one->reader().text();
      }
}

std::shared_ptr<client> campaign::start(transport over, question asked,
                                        std::optional<kill_plan> plan, std::uint32_t after_ms) {
  auto one =
      std::make_shared<client>(target_, over, std::move(asked), plan,
                               std::chrono::milliseconds(after_ms), [this] { changed_.cancel(); });
  one->start();
  return one;
}

/// False when it did not come true in a wave's time.
asio::awaitable<bool> campaign::until(std::function<bool()> condition) {
  const auto deadline = clock::now() + std::chrono::seconds(settings_.wave_timeout_s);
  while (!condition()) {
    boost::system::error_code cancelled;
    changed_.expires_at(deadline);
    co_await changed_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    if (!cancelled) co_return condition();
  }
  co_return true;
}

/// Those that die early go first: the wave's last deaths hit requests that run, and no wave waits
/// for a slow one.
std::vector<kill_plan> campaign::plans_of_wave() {
  std::vector<kill_plan> plans;
  for (std::uint32_t i = 0; i < settings_.wave; ++i) plans.push_back(matrix_.next());
  const auto rank = [](const kill_plan& p) {
    return p.when == moment::bytes_sent ? 0 : p.when == moment::milliseconds ? 1 : 2;
  };
  std::stable_sort(plans.begin(), plans.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return plans;
}

campaign::clients campaign::start_neighbours() {
  clients neighbours;
  for (std::uint32_t i = 0; i < settings_.neighbours; ++i) {
    const auto over =
        settings_.transports[(settings_.transports.size() - 1 + i) % settings_.transports.size()];
    const auto prompt = (i + tally_.waves) % prompt_count;
    neighbours.push_back(
        start(over, question_of(prompt, settings_.neighbour_tokens), std::nullopt, 0));
  }
  return neighbours;
}

/// A client that will stop reading asks for a long answer, so that its request still runs when the
/// wave ends. Beyond the N at which a short one would be over it gets the short one and outlives
/// its moment: the sweep is complete.
question campaign::question_for(const kill_plan& plan, std::size_t prompt) const {
  auto longer = question_of(prompt, settings_.silence_tokens);
  std::size_t last_n = 200;  // milliseconds
  if (plan.when == moment::events_received)
    last_n = plan.over == transport::plain ? 0 : settings_.max_tokens;
  if (plan.when == moment::bytes_sent) {
    last_n = 0;
    for (const auto& piece : request_pieces(target_.address, plan.over, longer))
      last_n += piece.size();
  }
  if (plan.how == manner::silence && plan.n <= last_n) return longer;
  return question_of(prompt, settings_.max_tokens);
}

campaign::clients campaign::start_victims(const std::vector<kill_plan>& plans, std::size_t begin,
                                          std::size_t end, std::uint32_t spread_ms) {
  clients victims;
  for (std::size_t i = begin; i < end; ++i) {
    const auto prompt = random_() % prompt_count, after = random_() % (spread_ms + 1);
    victims.push_back(start(plans[i].over, question_for(plans[i], prompt), plans[i],
                            static_cast<std::uint32_t>(after)));
  }
  return victims;
}

asio::awaitable<bool> campaign::wave() {
  const auto neighbours = start_neighbours();
  const auto began = [](const auto& one) {
    return one->over() || one->over_what() == transport::plain || one->reader().events() > 0;
  };
  const auto over = [](const auto& one) { return one->over(); };
  const auto settled = [](const auto& one) { return one->settled(); };
  bool in_time = co_await until([&] { return all(neighbours, began); });
  const auto plans = plans_of_wave();
  const auto rear = plans.size() - *settings_.rear;
  auto victims = start_victims(plans, 0, rear, settings_.spread_ms);
  in_time =
      in_time && co_await until([&] { return all(neighbours, over) && all(victims, settled); });
  const auto last = start_victims(plans, rear, plans.size(), 0);
  in_time = in_time && co_await until([&] { return all(last, settled); });

  end_of_wave end;
  for (const auto& one : last) end.killed_at_the_end += one->struck();
  victims.insert(victims.end(), last.begin(), last.end());
  for (const auto& one : victims) {
    end.killed_at_the_end += one->release();
    if (one->struck()) end.kill(one->gone_at());
    if (one->over() && !one->struck()) end.answer(one->gone_at());
  }
  for (const auto& one : neighbours) one->release();
  for (std::size_t i = 0; i < neighbours.size(); ++i) judge_neighbour(i, *neighbours[i]);
  for (const auto& one : victims) judge_victim(*one);
  if (!in_time)
    tally_.fail(fmt::format("{}: neighbours or clients were not through within {} s", where(),
                            settings_.wave_timeout_s));
  co_return co_await settle(end) && in_time;
}

}  // namespace troupe::chaos
