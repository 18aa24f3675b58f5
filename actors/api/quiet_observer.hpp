// An observer that ignores everything: a base for observers that need only a few of the calls. Owns
// nothing; safe from any thread.
#pragma once
#include "actors/api/observer.hpp"

namespace troupe {

class quiet_observer : public core::observer {
 public:
  void on_end(const core::request_record&) override {}
  void on_step(const core::step_record&) override {}
  void on_pool(const core::pool_record&) override {}
  void on_released(core::end_reason, bool, std::uint32_t, const core::pool_record&) override {}
  void on_release_latency(double) override {}
  void on_load(std::uint32_t, std::uint32_t) override {}
  void on_preemption(bool) override {}
  void on_move(const core::move_record&) override {}
  void on_host_tier(const core::host_tier_record&) override {}
  void on_prefix(std::uint32_t, std::uint32_t) override {}
  void on_inter_token(double) override {}
  void on_violation(const std::string&) override {}
};

}  // namespace troupe
