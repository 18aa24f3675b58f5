// A sink and an observer that remember, for tests that wait on real threads.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "actors/api/quiet_observer.hpp"

namespace troupe::test {

class recording_sink : public core::generation_sink {
 public:
  void accepted(std::uint32_t prompt_tokens) override {
    change([&] { order += 'a', prompt = prompt_tokens; });
  }
  void delta(core::generation_delta piece) override {
    change([&] {
      order += 'd';
      ++outstanding;
      outstanding_max = std::max(outstanding_max, outstanding);
      (piece.prompt ? echoed : text) += piece.text;
      for (auto& token : piece.tokens) pieces.push_back(std::move(token));
    });
    if (auto handle = credit.lock()) {
      change([&] { --outstanding; });
      handle->delivered();
    }
  }
  void end(core::generation_end last) override {
    change([&] {
      order += 'e';
      text += last.last.text;
      finish = std::move(last);
      ++ends;
    });
  }

  template <class Condition>
  bool wait(Condition condition, std::chrono::milliseconds at_most = std::chrono::seconds(300)) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, at_most, condition);
  }
  bool wait_end() {
    return wait([this] { return ends > 0; });
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::string order, text, echoed;
  std::vector<core::token_piece> pieces;
  std::uint32_t prompt = 0;
  int outstanding = 0, outstanding_max = 0, ends = 0;
  core::generation_end finish;
  std::weak_ptr<core::generation> credit;  ///< set: every delta is acknowledged at once

 private:
  template <class Change>
  void change(Change apply) {
    std::lock_guard lock(mutex);
    apply();
    changed.notify_all();
  }
};

class recording_observer : public quiet_observer {
 public:
  void on_end(const core::request_record& record) override {
    change([&] { ends.push_back(record); });
  }
  void on_step(const core::step_record& record) override {
    change([&] { steps.push_back(record); });
  }
  void on_pool(const core::pool_record& record) override {
    change([&] { pool = record; });
  }
  void on_released(core::end_reason, bool, std::uint32_t blocks,
                   const core::pool_record& after) override {
    change([&] { released += blocks, pool = after; });
  }
  void on_release_latency(double seconds) override {
    change([&] { latencies.push_back(seconds); });
  }
  void on_preemption(bool parked) override {
    change([&] { ++preemptions, parks += parked ? 1 : 0; });
  }
  void on_move(const core::move_record& record) override {
    change([&] { moves.push_back(record); });
  }
  void on_host_tier(const core::host_tier_record& record) override {
    change([&] { host = record; });
  }
  void on_prefix(std::uint32_t tokens, std::uint32_t hit) override {
    change([&] { prefix_queried += tokens, prefix_hit += hit; });
  }
  void on_violation(const std::string& invariant) override {
    change([&] { violations.push_back(invariant); });
  }

  template <class Condition>
  bool wait(Condition condition, std::chrono::milliseconds at_most = std::chrono::seconds(300)) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, at_most, condition);
  }
  /// Nothing is leased and as much was released as allocated.
  bool wait_whole() {
    return wait([this] { return pool.used == 0 && released == pool.allocated_total; });
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<core::request_record> ends;
  std::vector<core::step_record> steps;
  core::pool_record pool;
  std::uint64_t released = 0;
  std::vector<double> latencies;
  std::vector<std::string> violations;
  int preemptions = 0, parks = 0;
  std::vector<core::move_record> moves;
  core::host_tier_record host;
  std::uint64_t prefix_queried = 0, prefix_hit = 0;

 private:
  template <class Change>
  void change(Change apply) {
    std::lock_guard lock(mutex);
    apply();
    changed.notify_all();
  }
};

}  // namespace troupe::test
