// After each wave and at the end: what the clients got, how soon the server was idle, what it owes.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/use_awaitable.hpp>

#include "tools/chaos/campaign.hpp"
#include "tools/chaos/pool_request.hpp"
#include "tools/chaos/report.hpp"

namespace troupe::chaos {
void campaign::judge_neighbour(std::size_t i, const client& one) {
  ++tally_.neighbours.compared;
  if (one.survived() && one.reader().text() == solo(one.over_what(), one.asked())) return;
  ++tally_.neighbours.different;
  tally_.fail(one.survived()
                  ? fmt::format("{}: neighbour {} ({}) got '{}' instead of its solo answer '{}'",
                                where(), i, name_of(one.over_what()), one.reader().text(),
                                solo(one.over_what(), one.asked()))
                  : fmt::format("{}: neighbour {} ({}) got no whole answer: {}", where(), i,
                                name_of(one.over_what()), one.failure()));
}

void campaign::judge_victim(const client& one) {
  const auto& plan = *one.plan();
  const auto who = [&] {
    return fmt::format("{}: a client ({}, {} after {} {})", where(), name_of(plan.over),
                       name_of(plan.how), plan.n, name_of(plan.when));
  };
  if (one.struck()) {
    ++tally_.kills;
    matrix_.killed(plan);
    if (one.reader().text().empty()) return;
    ++tally_.pieces.compared;
    if (begins_alike(one)) return;
    ++tally_.pieces.different;
    tally_.fail(fmt::format("{} had read '{}', which is no beginning of its solo answer", who(),
                            one.reader().text()));
  } else if (one.survived()) {
    matrix_.survived(plan);
    ++tally_.survivors.compared;
    if (one.reader().text() == solo(plan.over, one.asked())) return;
    ++tally_.survivors.different;
    tally_.fail(fmt::format("{} lived on and got '{}' instead of its solo answer '{}'", who(),
                            one.reader().text(), solo(plan.over, one.asked())));
  } else if (one.refused()) {
    ++tally_.refused;
  } else {
    ++tally_.broken;
    tally_.fail(fmt::format("{} got no answer before its moment: {}", who(), one.failure()));
  }
}

const std::string& campaign::solo(transport over, const question& asked) const {
  static const std::string none;
  const auto found = solo_.find({over, asked.prompt, asked.tokens});
  return found == solo_.end() ? none : found->second;
}

bool campaign::begins_alike(const client& one) const {
  const auto& text = one.reader().text();
  for (const auto tokens : {settings_.max_tokens, settings_.neighbour_tokens}) {
    const auto& whole = solo_.at({one.over_what(), one.asked().prompt, tokens});
    if (whole.starts_with(text) || text.starts_with(whole)) return true;
  }
  return false;
}

/// After a wave: how soon the server is idle, and what it owes then.
asio::awaitable<bool> campaign::settle(const end_of_wave& end) {
  const auto& names = settings_.metrics;
  const auto deadline = clock::now() + std::chrono::seconds(*settings_.idle_timeout_s);
  // The first page may be answered in the same turn of the server's I/O as the last ends of
  // connections are seen, and before them; the second is asked for when they have been.
  co_await scrape();
  auto page = co_await scrape();
  const auto steps = page.value(names.steps);
  while (!idle(page)) {
    if (clock::now() > deadline) {
      tally_.fail(fmt::format(
          "{}: not idle {} s after the last kill: {} running, {} waiting, {} blocks used", where(),
          *settings_.idle_timeout_s, page.value(names.running).value_or(0),
          page.value(names.waiting).value_or(0), page.value(names.used).value_or(0)));
      judge_books(page);
      co_return false;
    }
    asio::steady_timer pause{target_.io, std::chrono::milliseconds(settings_.poll_ms)};
    co_await pause.async_wait(asio::use_awaitable);
    page = co_await scrape();
  }
  judge_idle_time(end, page);
  if (const auto after = page.value(names.steps); steps && after) {
    // One step or chunk may have been under way for each; what was planned later was planned for
    // nobody.
    const double computed = *after - *steps, in_flight = end.killed_at_the_end;
    tally_.most_tokens_in_flight =
        std::max(tally_.most_tokens_in_flight, std::min(computed, in_flight));
    if (computed > in_flight + 0.5) {
      *tally_.tokens_for_nobody += computed - in_flight;
      tally_.fail(fmt::format(
          "{}: {:.0f} tokens were computed after the last kill, {} requests were under way then",
          where(), computed, end.killed_at_the_end));
    }
  }
  judge_books(page);
  last_idle_page_ = std::move(page);
  co_return true;
}

void campaign::judge_idle_time(const end_of_wave& end, const metrics_page& page) {
  const auto ms = end.ms_until(clock::now());
  if (!ms) return;
  tally_.idle_ms.push_back(*ms);
  auto longest = last_idle_page_
                     ? page.largest_since(*last_idle_page_, settings_.metrics.step_seconds)
                     : std::nullopt;
  if (longest) *longest *= 1000;
  const double limit = idle_limit_ms(settings_.idle_limit_ms, settings_.max_step_ms, longest);
  if (*ms <= limit) return;
  ++tally_.late_waves;
  tally_.fail(
      fmt::format("{}: idle {:.0f} ms after the last kill, limit {:.0f} ms", where(), *ms, limit));
}

void campaign::judge_books(const metrics_page& page) {
  const auto& names = settings_.metrics;
  const auto allocated = page.value(names.allocated), released = page.value(names.released),
             leaked = page.value(names.leaked);
  const double lost = allocated && released ? *allocated - *released - books_at_start_ : 0;
  const double named = leaked ? *leaked - leaked_at_start_ : 0;
  const bool news =
      lost != tally_.blocks_lost.value_or(0) || named != tally_.blocks_leaked.value_or(0);
  if (tally_.blocks_lost) tally_.blocks_lost = lost;
  if (tally_.blocks_leaked) tally_.blocks_leaked = named;
  if (news && (lost != 0 || named != 0))
    tally_.fail(
        fmt::format("{}: leak: {:.0f} blocks not returned (allocated {:.0f}, released {:.0f}); the "
                    "server calls {:.0f} leaked",
                    where(), lost, allocated.value_or(0), released.value_or(0), named));
}

void campaign::look_at_memory() {
  const auto now = resident_bytes(settings_.rss_pid);
  if (!tally_.rss_first) tally_.rss_first = now;
  tally_.rss_last = now;
}

asio::awaitable<void> campaign::pool_request() {
  if (tally_.pool_tokens == 0) {
    tally_.pool_note = "not available: the size of the pool is not known (--pool-tokens)";
    co_return;
  }
  const auto tokens = context_ > 0 ? std::min(context_, tally_.pool_tokens) : tally_.pool_tokens;
  if (tokens < tally_.pool_tokens)
    tally_.pool_note =
        fmt::format("the pool is larger than a context: the request took {:.0f} % of it",
                    100.0 * tokens / tally_.pool_tokens);
  const auto began = clock::now();
  const auto problem = co_await ask_for_pool(target_, tokens, tally_.pool_requests,
                                             std::chrono::seconds(settings_.pool_timeout_s));
  ++tally_.pool_requests;
  tally_.pool_request_tokens = tokens;
  tally_.pool_request_ms = ms_between(began, clock::now());
  if (!problem.empty())
    tally_.fail(
        fmt::format("after wave {}: a request for {} of the pool's {} tokens did not get in: {}",
                    tally_.waves, tokens, tally_.pool_tokens, problem));
  co_await settle({});
}

void campaign::finish(const metrics_page& page) {
  // The cells take turns, so after four rounds of them each has had its deaths.
  for (const auto& c : tally_.cells)
    if (c.kills == 0 && tally_.kills >= 4 * tally_.cells.size())
      tally_.fail(fmt::format("no client died by {}, {}, {}", name_of(c.over), name_of(c.how),
                              name_of(c.when)));
  if (const auto bound = page.quantile_bound(settings_.metrics.step_seconds, 0.99))
    tally_.step_p99_ms = *bound * 1000;
  if (!tally_.rss_first || !tally_.rss_last) return;
  const auto pool = static_cast<double>(tally_.pool_bytes);
  const double ratio = (*tally_.rss_last - pool) / (*tally_.rss_first - pool);
  if (ratio > settings_.rss_limit)
    tally_.fail(
        fmt::format("resident memory without the pool grew by {:.2f} % after the first {} kills, "
                    "limit {:.2f} %",
                    100 * (ratio - 1), settings_.rss_after, 100 * (settings_.rss_limit - 1)));
}

}  // namespace troupe::chaos
