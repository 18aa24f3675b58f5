// A generation engine that does what a test writes down: tokens with pauses, holds at a named
// point, any end. Runs on one thread of its own and records every submit, cancel and credit. Its
// tokens are bytes.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "actors/api/generation.hpp"

namespace troupe::net::test {

enum class hold_at { never, queued, prefill, decode };  ///< decode: after the first delta

struct script {
  std::vector<std::string> pieces{"Hello", ", ", "world"};
  hold_at hold = hold_at::never;
  std::chrono::milliseconds pause{0};  ///< before each delta
  core::end_reason reason = core::end_reason::end_token;
  core::refusal why_refused = core::refusal::none;
  std::string message;
  std::optional<std::string> stop_string;
  std::uint32_t repeat = 1;  ///< the pieces, this many times over
};

struct recorded_cancel {
  std::uint64_t id;
  core::end_reason why;
  core::time_us seen_at;
};

class fake_engine final : public core::generation_engine {
 public:
  fake_engine();
  ~fake_engine() override;

  /// Called at each submit with the number of the generation, from 0.
  void play(std::function<script(std::size_t)>);
  void play(script s) {
    play([s](std::size_t) { return s; });
  }

  std::vector<core::generation_request> submitted() const;
  std::vector<recorded_cancel> cancels() const;
  std::size_t live() const;  ///< generations that have not ended
  std::size_t deltas_sent() const;
  bool overrun() const;  ///< a delivered() came that no delta explains
  /// Waits until `condition` holds, 20 seconds at most.
  static bool eventually(const std::function<bool()>& condition);

  std::shared_ptr<core::generation> submit(core::generation_request,
                                           std::weak_ptr<core::generation_sink>) override;
  const core::model_card& card() const override { return card_; }
  core::engine_health health() const override;
  std::vector<token_id> encode(const core::generation_request&) const override;
  std::string decode(const std::vector<token_id>&) const override;
  std::string token_bytes(token_id t) const override {
    return std::string(1, static_cast<char>(t));
  }
  core::time_us now() const override;
  core::engine_probe* probe() override { return probe_now; }

  std::function<void()> before_encode;  ///< set before anybody asks
  core::engine_probe* probe_now = nullptr;
  core::engine_health health_now;  ///< set before the server starts, or while nobody asks
  core::model_card card_{.name = "fake",
                         .context = 128,
                         .model_context = 128,
                         .created = 1,
                         .vocab = 256,
                         .bos = "<s>",
                         .eos = "</s>",
                         .chat_template = "{{t}}"};

 private:
  struct playing;
  struct handle;
  void run();
  bool step(playing&);
  void end(playing&, core::end_reason);

  mutable std::mutex mutex_;
  std::function<script(std::size_t)> play_ = [](std::size_t) { return script{}; };
  std::vector<core::generation_request> submitted_;
  std::vector<recorded_cancel> cancels_;
  std::map<std::uint64_t, std::shared_ptr<playing>> playing_;
  std::size_t deltas_sent_ = 0;
  bool overrun_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace troupe::net::test
