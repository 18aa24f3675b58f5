#include "tools/bench/load/load_run.hpp"

#include <fmt/core.h>
#include <sys/resource.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace troupe {
namespace {

using boost::system::error_code;

/// Each request has a connection of its own.
constexpr std::string_view one_request = "Connection: close\r\n";

/// User and system time of this process.
double own_cpu_s() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// Open loops have as many connections as the server lets wait.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

class load_run {
 public:
  load_run(load_options options, bool show_progress)
      : show_progress_(show_progress),
        server_(api_client::parse_url(options.url)),
        to_(resolve(io_, server_)),
        arrival_(io_),
        progress_(io_) {
    server_.api_key = options.api_key;
    result_.options = std::move(options);
  }

  load_result run() {
    probe();
    began_ = steady::now();
    const double cpu = own_cpu_s();
    const auto& options = result_.options;
    if (options.rate > 0) {
      next_arrival_ = began_;
      arrive();
    } else {
      for (std::uint32_t i = 0; i < options.clients && more(); ++i) start(steady::now());
    }
    if (show_progress_) tick();
    io_.restart();
    io_.run();
    result_.elapsed_s = std::chrono::duration<double>(last_end_ - began_).count();
    result_.own_cpu_s = own_cpu_s() - cpu;
    if (show_progress_) fmt::print(stderr, "\r\x1b[K");
    return std::move(result_);
  }

 private:
  /// One exchange by itself, before the load.
  load_record call_alone(std::string request) {
    load_record out;
    load_call call;
    call.head_and_body = std::move(request);
    call.timeout_s = result_.options.timeout_s;
    call.arrived = steady::now();
    io_.restart();
    begin_call(io_, to_, std::move(call), [&](load_record record) { out = std::move(record); });
    io_.run();
    return out;
  }

  // The model's name, and which of the fields beyond the plain ones the server takes: a first
  // request of one token, with less and less until it is not refused.
  void probe() {
    auto& options = result_.options;
    if (options.model.empty()) {
      const auto listed = call_alone(get_text(server_, "/v1/models", one_request));
      const auto parsed = nlohmann::json::parse(listed.body, nullptr, false);
      if (!listed.fault.empty() || !parsed.is_object() || !parsed.contains("data") ||
          parsed["data"].empty())
        throw std::runtime_error(
            fmt::format("{}: /v1/models names no model ({} {}); --model does", options.url,
                        listed.fault.empty() ? "no list" : listed.fault, listed.detail));
      options.model = parsed["data"][0].value("id", "");
    }
    path_ = options.endpoint == "chat" ? "/v1/chat/completions" : "/v1/completions";
    load_record answered;
    for (const auto& [eos, usage] :
         {std::pair(true, true), std::pair(false, true), std::pair(false, false)}) {
      if (eos && !options.ignore_eos) continue;
      result_.ignored_eos = eos;
      stream_usage_ = usage;
      answered = call_alone(post_text(
          server_, path_, request_body(options, "the river and", 1, usage, eos), one_request));
      if (answered.fault.empty()) return;
      if (answered.status != 400 && answered.status != 422) break;
    }
    throw std::runtime_error(
        fmt::format("{}{}: {} {}", options.url, path_, answered.fault, answered.detail));
  }

  bool more() const {
    const auto& options = result_.options;
    if (options.duration_s > 0)
      return std::chrono::duration<double>(steady::now() - began_).count() < options.duration_s;
    return started_ < options.requests;
  }

  void start(steady::time_point arrived) {
    const auto& options = result_.options;
    const auto planned = plan_request(options, started_++);
    load_call call;
    call.head_and_body = post_text(server_, path_,
                                   request_body(options, planned.prompt, planned.max_tokens,
                                                stream_usage_, result_.ignored_eos),
                                   one_request);
    call.cancel_after = planned.cancel_after;
    call.reset = planned.reset;
    call.slow = planned.slow;
    call.slow_bytes_per_s = options.slow_bytes_per_s;
    call.timeout_s = options.timeout_s;
    call.arrived = arrived;
    ++open_;
    begin_call(io_, to_, std::move(call), [this](load_record record) { ended(std::move(record)); });
  }

  void ended(load_record record) {
    --open_;
    last_end_ = record.ended;
    tokens_ += record.completion_tokens;
    failed_ += !record.fault.empty() && record.fault != "cancelled";
    // A server that refuses at once must not be asked in a circle without a pause.
    const bool refused = !record.fault.empty() && record.fault != "cancelled";
    result_.records.push_back(std::move(record));
    if (result_.options.rate > 0 || !more()) return finish_if_over();
    if (!refused) return start(steady::now());
    auto pause = std::make_shared<boost::asio::steady_timer>(io_, std::chrono::milliseconds(20));
    ++open_;
    pause->async_wait([this, pause](error_code) {
      --open_;
      more() ? start(steady::now()) : finish_if_over();
    });
  }

  // The latency of a request counts from when it should have been sent, however late this process
  // is.
  void arrive() {
    if (!more()) return finish_if_over();
    arrival_.expires_at(next_arrival_);
    arrival_.async_wait([this](error_code) {
      if (!more()) return finish_if_over();
      start(next_arrival_);
      next_arrival_ += std::chrono::duration_cast<steady::duration>(std::chrono::duration<double>(
          arrival_gap_s(result_.options.rate, result_.options.seed, started_)));
      arrive();
    });
  }

  void finish_if_over() {
    if (open_ == 0 && !more()) progress_.cancel();
  }

  void tick() {
    const auto& options = result_.options;
    const double s = std::chrono::duration<double>(steady::now() - began_).count();
    const double part = options.duration_s > 0
                            ? s / options.duration_s
                            : static_cast<double>(result_.records.size()) / options.requests;
    constexpr int bar = 30;
    const int full = static_cast<int>(bar * std::min(part, 1.0));
    fmt::print(stderr,
               "\r\x1b[K[{:=<{}}{:{}}] {} over, {} open, {} failed, {:.0f} tokens/s, {:.0f} s", "",
               full, "", bar - full, result_.records.size(), open_, failed_,
               s > 0 ? static_cast<double>(tokens_) / s : 0, s);
    std::fflush(stderr);
    progress_.expires_after(std::chrono::milliseconds(250));
    progress_.async_wait([this](error_code error) {
      if (!error && (open_ > 0 || more())) tick();
    });
  }

  boost::asio::io_context io_{1};
  bool show_progress_;
  api_client::server_address server_;
  std::shared_ptr<load_endpoint> to_;
  boost::asio::steady_timer arrival_, progress_;
  load_result result_;
  std::string path_;
  bool stream_usage_ = true;
  std::uint64_t started_ = 0, tokens_ = 0, failed_ = 0;
  std::uint32_t open_ = 0;
  steady::time_point began_, last_end_, next_arrival_;
};

}  // namespace

load_result run_load(load_options options, bool show_progress) {
  raise_descriptor_limit();
  return load_run(std::move(options), show_progress).run();
}

}  // namespace troupe
