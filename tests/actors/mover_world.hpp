// A mover on real threads with the test as its scheduler: sends messages, waits for answers,
// records what the observer gets. Header only, for the tests of this folder.
#pragma once
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <catch2/catch.hpp>
#include <optional>

#include "actors/mover_actor.hpp"
#include "actors/protocol/engine.hpp"

namespace troupe::test {

/// Records what a mover reports. Calls that are not a mover's are violations.
class move_watcher final : public core::observer {
 public:
  void on_end(const core::request_record&) override { stray(); }
  void on_step(const core::step_record&) override { stray(); }
  void on_pool(const core::pool_record&) override { stray(); }
  void on_released(core::end_reason, bool, std::uint32_t, const core::pool_record&) override {
    stray();
  }
  void on_release_latency(double) override { stray(); }
  void on_load(std::uint32_t, std::uint32_t) override { stray(); }
  void on_preemption(bool) override { stray(); }
  void on_prefix(std::uint32_t, std::uint32_t) override { stray(); }
  void on_inter_token(double) override { stray(); }
  void on_move(const core::move_record& record) override {
    std::lock_guard lock(mutex_);
    moves_.push_back(record);
  }
  void on_host_tier(const core::host_tier_record& record) override {
    std::lock_guard lock(mutex_);
    tier_ = record;
  }
  void on_violation(const std::string& invariant) override {
    std::lock_guard lock(mutex_);
    violations_.push_back(invariant);
  }

  std::vector<core::move_record> moves() const { return read(moves_); }
  core::host_tier_record tier() const { return read(tier_); }
  std::vector<std::string> violations() const { return read(violations_); }

 private:
  void stray() { on_violation("the mover reported what only other actors may report"); }
  template <class T>
  T read(const T& value) const {
    std::lock_guard lock(mutex_);
    return value;
  }

  mutable std::mutex mutex_;
  std::vector<core::move_record> moves_;
  core::host_tier_record tier_;
  std::vector<std::string> violations_;
};

struct mover_system_config : caf::actor_system_config {
  mover_system_config() { add_message_types<caf::id_block::troupe>(); }
};

inline core::lease_id lease(std::uint64_t request) {
  return {core::request_id{request}, 1};
}

/// A mover with `slots` slots over a device, and its scheduler: this thread.
struct mover_world {
  mover_world(std::shared_ptr<gpu::backend> on, std::uint32_t slots)
      : device(std::move(on)),
        host(std::make_shared<host_memory>(slots * device->info().kv.largest_block_bytes(),
                                           *device)),
        system(std::make_unique<caf::actor_system>(config)),
        scheduler(std::make_unique<caf::scoped_actor>(*system)) {
    mover = system->spawn<caf::detached>(
        mover_actor, device, host,
        caf::actor_cast<protocol::scheduler_actor>(caf::actor(*scheduler)), &watcher);
  }
  ~mover_world() { end(); }

  template <class Message>
  void send(Message ask) {
    (*scheduler)->send(mover, std::move(ask));
  }
  core::moved answer() {
    std::optional<core::moved> got;
    (*scheduler)
        ->receive([&](const core::moved& over) { got = over; },
                  caf::after(std::chrono::seconds(10)) >> [] {});
    REQUIRE(got);
    return *got;
  }
  bool silent(std::chrono::milliseconds for_long) {
    bool quiet = false;
    (*scheduler)->receive([](const core::moved&) {}, caf::after(for_long) >> [&] { quiet = true; });
    return quiet;
  }
  core::move_outcome out(core::lease_id of, std::uint32_t first, std::uint32_t total,
                         std::vector<core::block_id> blocks) {
    start_out(of, first, total, std::move(blocks));
    return matching(answer());
  }
  void start_out(core::lease_id of, std::uint32_t first, std::uint32_t total,
                 std::vector<core::block_id> blocks) {
    send(core::move_out{core::move_id{++last}, of, first, total, std::move(blocks)});
  }
  core::move_outcome in(core::lease_id parked, std::uint32_t first,
                        std::vector<core::block_id> blocks) {
    start_in(parked, first, std::move(blocks));
    return matching(answer());
  }
  void start_in(core::lease_id parked, std::uint32_t first, std::vector<core::block_id> blocks) {
    send(core::move_in{core::move_id{++last}, parked, first, std::move(blocks)});
  }
  core::move_outcome matching(const core::moved& over) const {
    CHECK(over.move.value == last);
    return over.outcome;
  }
  /// Returns when the mover has handled everything sent before: it answers in order.
  void flush() { REQUIRE(in(lease(999999), 0, {0}) == core::move_outcome::failed); }

  void end() {
    if (!system) return;
    if (mover)
      caf::anon_send_exit(caf::actor_cast<caf::actor>(mover), caf::exit_reason::user_shutdown);
    mover = nullptr;
    scheduler.reset();
    system.reset();
  }

  std::shared_ptr<gpu::backend> device;
  std::shared_ptr<host_memory> host;
  move_watcher watcher;
  mover_system_config config;
  std::unique_ptr<caf::actor_system> system;
  std::unique_ptr<caf::scoped_actor> scheduler;
  mover_shell mover;
  std::uint64_t last = 0;
};

}  // namespace troupe::test
