// A generation engine whose events come from several threads at once, with no lock held while a
// sink is called: what its clients' own ordering must stand. Two events of one generation never
// overlap, but the next one comes from whichever thread is free. Header only; owned by a test;
// never times anything.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/api/generation.hpp"

namespace troupe::test {

class racing_engine final : public core::generation_engine {
 public:
  static constexpr std::uint32_t endless = 0xFFFFFFFF;

  explicit racing_engine(unsigned threads = 3) {
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { serve(); });
  }
  ~racing_engine() override {
    {
      const std::lock_guard lock{mutex_};
      stop_ = true;
    }
    wake_.notify_all();
    for (auto& t : threads_) t.join();
  }

  std::atomic<std::uint32_t> pieces = 4;  ///< deltas of the answers to come
  std::atomic<std::uint64_t> submitted = 0, ended = 0, deltas = 0;
  std::atomic<std::uint64_t> overruns = 0;    ///< delivered() that no delta explains
  std::atomic<std::uint64_t> vanished = 0;    ///< sinks that were gone without a cancel
  std::atomic<std::uint64_t> left = 0;        ///< generations whose client left
  std::atomic<std::uint64_t> left_again = 0;  ///< more than one such cancel for one generation

  bool idle() const { return submitted == ended; }
  /// Waits until `condition` holds, 20 seconds at most: a sanitizer on a busy machine is slow.
  static bool eventually(const std::function<bool()>& condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{300};
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    return true;
  }

  std::shared_ptr<core::generation> submit(core::generation_request,
                                           std::weak_ptr<core::generation_sink> sink) override {
    auto p = std::make_shared<playing>(*this, ++submitted, pieces, std::move(sink));
    p->ask();
    return p;
  }
  const core::model_card& card() const override { return card_; }
  core::engine_health health() const override { return {}; }
  std::vector<token_id> encode(const core::generation_request&) const override { return {1, 2, 3}; }
  std::string decode(const std::vector<token_id>&) const override { return "abc"; }
  std::string token_bytes(token_id t) const override {
    return std::string(1, static_cast<char>(t));
  }
  core::time_us now() const override {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

 private:
  /// A generation and its handle in one.
  struct playing final : core::generation, std::enable_shared_from_this<playing> {
    playing(racing_engine& e, std::uint64_t i, std::uint32_t p,
            std::weak_ptr<core::generation_sink> s)
        : engine{e}, number{i}, pieces{p}, sink{std::move(s)} {}

    core::request_id id() const override { return {number}; }
    core::life_phase phase() const override {
      const std::lock_guard lock{mutex};
      return over       ? core::life_phase::done
             : sent > 0 ? core::life_phase::decode
                        : core::life_phase::queued;
    }
    void delivered() override {
      {
        const std::lock_guard lock{mutex};
        if (over) return;
        if (!std::exchange(outstanding, false)) ++engine.overruns;
      }
      ask();
    }
    void cancel(core::end_reason why, core::time_us) override {
      {
        const std::lock_guard lock{mutex};
        if (why != core::end_reason::cancelled && std::exchange(gone, true)) ++engine.left_again;
        if (over) return;
        if (!cancelled && gone) ++engine.left;
        if (!cancelled) cancelled = why;
      }
      ask();
    }
    /// There may be something to do: into the queue, once.
    void ask() {
      {
        const std::lock_guard lock{mutex};
        again = true;
        if (std::exchange(queued, true)) return;
      }
      engine.push(shared_from_this());
    }
    /// One event, on a thread of the engine.
    void step() {
      const auto to = sink.lock();
      enum { nothing, accept, piece, finish } what = nothing;
      core::generation_end last;
      {
        const std::lock_guard lock{mutex};
        again = false;
        if (over) {
        } else if (!to || cancelled || (accepted && !outstanding && sent == pieces)) {
          what = finish;
          over = true;
          if (!to && !cancelled) ++engine.vanished;
          last.reason = cancelled.value_or(core::end_reason::end_token);
          last.usage = {3, 0, sent};
        } else if (!accepted) {
          what = accept;
          accepted = true;
        } else if (!outstanding) {
          what = piece;
          outstanding = true;
          ++sent;
        }
      }
      if (what == accept) to->accepted(3);
      if (what == piece) {
        core::generation_delta d;
        d.text = "word" + std::to_string(sent) + " ";
        d.completion_tokens = sent;
        ++engine.deltas;
        to->delta(std::move(d));
      }
      if (what == finish) {
        if (to) to->end(std::move(last));
        ++engine.ended;
      }
      {
        const std::lock_guard lock{mutex};
        if (over || (what == nothing && !again)) {
          queued = false;
          return;
        }
      }
      engine.push(shared_from_this());
    }

    racing_engine& engine;
    const std::uint64_t number;
    const std::uint32_t pieces;
    const std::weak_ptr<core::generation_sink> sink;
    mutable std::mutex mutex;
    std::uint32_t sent = 0;
    bool accepted = false, outstanding = false, over = false, gone = false;
    bool queued = false, again = false;
    std::optional<core::end_reason> cancelled;
  };

  void push(std::shared_ptr<playing> p) {
    {
      const std::lock_guard lock{mutex_};
      if (stop_) return;
      queue_.push_back(std::move(p));
    }
    wake_.notify_one();
  }
  void serve() {
    for (;;) {
      std::unique_lock lock{mutex_};
      wake_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      const auto p = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      p->step();
    }
  }

  core::model_card card_{.name = "racing",
                         .context = 128,
                         .created = 1,
                         .vocab = 256,
                         .bos = "<s>",
                         .eos = "</s>",
                         .chat_template = "{{t}}"};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<playing>> queue_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace troupe::test
