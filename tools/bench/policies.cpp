// The tables of `troupe-bench policies`: which requests, which policies, which figures.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <stdexcept>
#include <utility>

#include "tools/bench/apart_backend.hpp"
#include "tools/bench/bench.hpp"
#include "tools/bench/build_facts.hpp"
#include "tools/bench/load/distribution.hpp"
#include "tools/bench/load/load_plan.hpp"
#include "tools/bench/policy_driver.hpp"
#include "tools/bench/policy_table.hpp"

namespace troupe {

const std::vector<std::string> policy_tables = {"batching", "kv_cache", "mixing", "window",
                                                "buckets"};

namespace {

constexpr double share_of_capacity = 0.8;
constexpr double windows_ms[] = {0, 10, 50};

struct request_mix {
  std::uint32_t requests, prompt_min, prompt_max;
  std::vector<std::uint32_t> answers;
};

/// How much is run: requests of the batched tables, tokens of the others. A minute and a half on
/// two cores.
struct sizes {
  request_mix varied = {32, 16, 96, {8, 16, 32, 64, 96}};
  // A batching window matters where it is as long as a request or the gap between two of them.
  request_mix brief = {48, 16, 32, {4, 8, 12}};
  std::vector<std::uint32_t> cached_prompts = {64, 512};
  std::uint32_t cached_answer = 16;
  std::uint32_t streams = 6, stream_tokens = 96, long_prompts = 4, long_prompt = 480;
  double long_gap_s = 0.25;
};

sizes quick_sizes() {
  sizes out;
  out.varied = {6, 16, 24, {2, 4, 8}};
  out.brief = {4, 8, 16, {2, 4}};
  out.cached_prompts = {32};
  out.cached_answer = 4;
  out.streams = 2;
  out.stream_tokens = 8;
  out.long_prompts = 1;
  out.long_prompt = 64;
  out.long_gap_s = 0.02;
  return out;
}

std::vector<double> each(const policy_outcome& outcome, double timed_outcome::*figure,
                         std::size_t from = 0, std::size_t to = SIZE_MAX) {
  std::vector<double> out;
  for (auto i = from; i < std::min(to, outcome.requests.size()); ++i)
    out.push_back(outcome.requests[i].*figure);
  return out;
}

/// Requests, and how many of them arrive a second.
struct offered {
  std::vector<timed_request> requests;
  double rate = 0;
};

class policy_bench {
 public:
  policy_bench(const std::string& path, gpu::backend_options options, const policy_options& wanted)
      : wanted_(wanted),
        size_(wanted.quick ? quick_sizes() : sizes{}),
        model_(gpu::load_model(path)),
        random_(wanted.seed) {
    config_.model = path;
    config_.enable_prefix_caching = false;
    config_.max_num_queued_reqs = 4096;
    config_.queue_timeout_s = config_.first_token_timeout_s = config_.request_timeout_s = 0;
    config_.max_num_batched_tokens = 1024;
    // Room for eight of the longest requests: no policy is disturbed by preemption.
    const auto longest =
        std::max({size_.varied.prompt_max + size_.varied.answers.back(), size_.long_prompt + 16u,
                  32 + size_.stream_tokens, size_.cached_prompts.back() + size_.cached_answer});
    config_.num_kv_blocks = options.num_blocks = 9 * (longest / config_.block_size + 3);
    options.block_size = config_.block_size;
    device_ = gpu::make_backend(model_, options);
    model_->file.release_data();
  }

  policy_table table(const std::string& name) {
    random_.seed(wanted_.seed);
    if (name == "batching") return batching();
    if (name == "kv_cache") return kv_cache();
    if (name == "mixing") return mixing();
    if (name == "window") return window();
    if (name == "buckets") return buckets();
    throw std::invalid_argument(fmt::format("no table is named '{}'", name));
  }
  const gpu::device_info& device() const { return device_->info(); }

 private:
  std::vector<token_id> random_tokens(std::size_t count) {
    std::vector<token_id> out(count);
    for (auto& token : out)
      token = static_cast<token_id>(1000 + random_() % (model_->config.vocab - 1000));
    return out;
  }
  /// As many a second as leaves continuous batching some room; measured at the first use.
  const offered& load(const request_mix& mix, std::optional<offered>& kept) {
    if (kept) return *kept;
    random_.seed(wanted_.seed);  // the same requests, whichever tables were asked for
    offered out;
    for (std::uint32_t i = 0; i < mix.requests; ++i) {
      const auto prompt = mix.prompt_min + random_() % (mix.prompt_max - mix.prompt_min + 1);
      out.requests.push_back(
          {0, random_tokens(prompt), mix.answers[random_() % mix.answers.size()]});
    }
    const auto all_at_once = run(8, out.requests, {});
    out.rate = wanted_.rate > 0
                   ? wanted_.rate
                   : share_of_capacity * static_cast<double>(mix.requests) / all_at_once.elapsed_s;
    double at = 0;
    for (std::size_t i = 0; i < out.requests.size();
         ++i, at += arrival_gap_s(out.rate, wanted_.seed, i))
      out.requests[i].at_s = at;
    return kept.emplace(std::move(out));
  }
  const offered& varied() { return load(size_.varied, varied_); }
  const offered& brief() { return load(size_.brief, brief_); }
  policy_outcome run(std::uint32_t max_num_seqs, const std::vector<timed_request>& requests,
                     const grouping& how) {
    config_.max_num_seqs = max_num_seqs;
    return policy_driver(config_, model_, device_).run(requests, how);
  }
  static std::string words_of(const request_mix& mix, const offered& load) {
    return fmt::format(
        "{} requests, {} to {} prompt tokens, answers of {} to {}, Poisson arrivals at {:.2f}/s",
        mix.requests, mix.prompt_min, mix.prompt_max, mix.answers.front(), mix.answers.back(),
        load.rate);
  }

  void add_batched(policy_table& table, const std::string& policy,
                   const policy_outcome& outcome) const {
    const auto first = distribution_of(each(outcome, &timed_outcome::first_ms));
    const auto end = distribution_of(each(outcome, &timed_outcome::end_ms));
    table.rows.push_back(
        {policy,
         {static_cast<double>(outcome.requests.size()) / outcome.elapsed_s,
          static_cast<double>(outcome.tokens) / outcome.elapsed_s, outcome.rows_per_step, first.p50,
          first.p95, end.p50, end.p95, end.p99}});
  }
  static std::vector<std::string> batched_columns() {
    return {"requests_per_s", "tokens_per_s", "rows_per_step", "ttft_p50_ms",
            "ttft_p95_ms",    "e2e_p50_ms",   "e2e_p95_ms",    "e2e_p99_ms"};
  }

  policy_table batching() {
    const auto& requests = varied().requests;
    policy_table out{"batching", words_of(size_.varied, varied()), batched_columns(), {}};
    add_batched(out, "serial", run(1, requests, {}));
    add_batched(out, "fixed batch of 4", run(4, requests, {.fixed_batch = 4}));
    add_batched(out, "continuous, up to 4", run(4, requests, {}));
    add_batched(out, "continuous, up to 8", run(8, requests, {}));
    return out;
  }

  // Each token as a request of its own with everything before it as its prompt, beside one request
  // that keeps K and V.
  policy_table kv_cache() {
    policy_table out{
        "kv_cache",
        fmt::format("one sequence, {} tokens answered, greedy; the answers are compared",
                    size_.cached_answer),
        {"tokens_per_s", "ms_per_token", "tokens_computed"},
        {}};
    config_.max_num_seqs = 1;
    policy_driver driver(config_, model_, device_);
    for (const auto length : size_.cached_prompts) {
      const auto prompt = random_tokens(length);
      const auto timed = [&](const std::string& policy, std::uint64_t computed, auto answer) {
        const auto began = std::chrono::steady_clock::now();
        auto tokens = answer();
        const double s =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
        const auto count = static_cast<double>(tokens.size());
        out.rows.push_back({fmt::format("{}, prompt of {}", policy, length),
                            {count / s, 1000 * s / count, static_cast<double>(computed)}});
        return tokens;
      };
      const std::uint64_t answered = size_.cached_answer;
      const auto cached = timed("KV cache", length + answered - 1,
                                [&] { return driver.answer(prompt, size_.cached_answer); });
      const auto again =
          timed("full recompute", answered * length + answered * (answered - 1) / 2, [&] {
            auto sequence = prompt;
            while (sequence.size() < prompt.size() + answered)
              sequence.push_back(driver.answer(sequence, 1).front());
            return std::vector<token_id>(
                sequence.begin() + static_cast<std::ptrdiff_t>(prompt.size()), sequence.end());
          });
      if (cached != again) throw std::runtime_error("recomputed and cached answers differ");
    }
    return out;
  }

  // Streams that decode while long prompts arrive.
  policy_table mixing() {
    policy_table out{
        "mixing",
        fmt::format(
            "{} streams of {} tokens, beside them {} prompts of {} tokens, one each {:g} ms",
            size_.streams, size_.stream_tokens, size_.long_prompts, size_.long_prompt,
            size_.long_gap_s * 1000),
        {"itl_p50_ms", "itl_p95_ms", "itl_p99_ms", "itl_max_ms", "long_ttft_p50_ms",
         "long_ttft_max_ms", "tokens_per_s"},
        {}};
    std::vector<timed_request> requests;
    for (std::uint32_t i = 0; i < size_.streams; ++i)
      requests.push_back({0, random_tokens(32), size_.stream_tokens});
    for (std::uint32_t i = 0; i < size_.long_prompts; ++i)
      requests.push_back({size_.long_gap_s * (i + 1), random_tokens(size_.long_prompt), 4});
    const auto add = [&](const std::string& policy, const policy_outcome& outcome) {
      std::vector<double> gaps;
      for (std::uint32_t i = 0; i < size_.streams; ++i)
        gaps.insert(gaps.end(), outcome.requests[i].gaps_ms.begin(),
                    outcome.requests[i].gaps_ms.end());
      const auto itl = distribution_of(gaps),
                 first = distribution_of(each(outcome, &timed_outcome::first_ms, size_.streams));
      out.rows.push_back({policy,
                          {itl.p50, itl.p95, itl.p99, itl.max, first.p50, first.max,
                           static_cast<double>(outcome.tokens) / outcome.elapsed_s}});
    };
    config_.max_num_seqs = size_.streams + size_.long_prompts;
    const auto apart = std::make_shared<apart_backend>(device_);
    add("mixed, prompts in chunks", policy_driver(config_, model_, device_).run(requests, {}));
    add("apart, prompts in chunks", policy_driver(config_, model_, apart).run(requests, {}));
    auto whole = config_;
    whole.max_step_ms = 60'000;  // nothing cuts a prompt that fits the step
    add("mixed, whole prompts", policy_driver(whole, model_, device_).run(requests, {}));
    add("apart, whole prompts", policy_driver(whole, model_, apart).run(requests, {}));
    return out;
  }

  policy_table window() {
    const auto& requests = brief().requests;
    policy_table out{"window", words_of(size_.brief, brief()), batched_columns(), {}};
    for (const double ms : windows_ms)
      add_batched(out, fmt::format("continuous, window of {:g} ms", ms),
                  run(8, requests, {.window_ms = ms}));
    for (const double ms : windows_ms)
      add_batched(out, fmt::format("whole batches, window of {:g} ms", ms),
                  run(8, requests, {.window_ms = ms, .fixed_batch = 8}));
    return out;
  }

  policy_table buckets() {
    auto requests = varied().requests;
    for (auto& one : requests) one.at_s = 0;
    policy_table out{"buckets",
                     fmt::format("{} requests, all there at once, in fixed batches of 4; a bucket: "
                                 "answers that differ by less than a factor of two",
                                 requests.size()),
                     batched_columns(),
                     {}};
    add_batched(out, "in order of arrival", run(4, requests, {.fixed_batch = 4}));
    add_batched(out, "buckets by length", run(4, requests, {.fixed_batch = 4, .buckets = true}));
    add_batched(out, "continuous, up to 4", run(4, requests, {}));
    return out;
  }

  policy_options wanted_;
  sizes size_;
  std::shared_ptr<gpu::loaded_model> model_;
  std::mt19937_64 random_;
  runtime_config config_;
  std::shared_ptr<gpu::backend> device_;
  std::optional<offered> varied_, brief_;
};

}  // namespace

void bench_policies(const std::string& path, gpu::backend_options options,
                    const policy_options& wanted, const std::string& command, bool json) {
  policy_bench bench(path, std::move(options), wanted);
  const auto facts = facts_of_run(command);
  nlohmann::ordered_json all = {{"date", facts.date},
                                {"machine", facts.machine},
                                {"build", facts.build},
                                {"command", facts.command},
                                {"threads", bench.device().threads},
                                {"isa", bench.device().isa},
                                {"seed", wanted.seed},
                                {"tables", nlohmann::ordered_json::object()}};
  if (!json)
    fmt::print("{}  {}, {} threads, {}\n{}\n{}\n", facts.date, facts.machine,
               bench.device().threads, bench.device().isa, facts.build, facts.command);
  for (const auto& name : wanted.tables.empty() ? policy_tables : wanted.tables) {
    const auto began = std::chrono::steady_clock::now();
    const auto table = bench.table(name);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    all["tables"][name] = to_json(table);
    all["tables"][name]["seconds"] = std::round(took.count() * 10) / 10;
    if (!json) fmt::print("{}in {:.0f} s\n", to_words(table), took.count());
    std::fflush(stdout);
  }
  if (json) fmt::print("{}\n", all.dump());
}

}  // namespace troupe
