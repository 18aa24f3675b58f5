// One API object being answered on one connection: its choices with their sinks and handles, and
// how far each is. Lives on the connection's strand. When the client leaves, cancels every choice
// that has not ended, exactly once.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/server/bridge.hpp"
#include "net/server/cancel_registry.hpp"

namespace troupe::net {

class exchange {
 public:
  exchange(core::generation_engine&, cancel_registry&, std::uint64_t serial, std::string object_id);
  ~exchange();  ///< leaves the registry
  exchange(const exchange&) = delete;
  exchange& operator=(const exchange&) = delete;

  /// Submits `n` choices of each prompt; they differ in their seeds alone.
  void start(std::vector<core::generation_request> prompts, std::uint32_t n,
             const std::weak_ptr<event_receiver>&);

  // An event of the engine; false: the choice has ended already, ignore it.
  bool on_accepted(std::size_t choice);
  bool on_delta(std::size_t choice) const;
  bool on_end(std::size_t choice);

  void delivered(std::size_t choice);
  /// Cancels what has not ended. Once: later calls do nothing.
  void cancel_rest(core::end_reason, core::time_us seen_at);

  std::uint64_t serial() const { return serial_; }
  const std::string& object_id() const { return object_id_; }
  std::size_t size() const { return choices_.size(); }
  bool all_accepted() const;
  bool all_ended() const;
  /// How far the furthest choice is; for the disconnect metric.
  core::life_phase phase() const;

 private:
  struct choice {
    std::shared_ptr<posting_sink> sink;
    std::shared_ptr<core::generation> handle;
    bool accepted = false, ended = false;
  };
  core::generation_engine& engine_;
  cancel_registry& registry_;
  std::uint64_t serial_;
  std::string object_id_;
  std::vector<choice> choices_;
  bool cancelled_ = false;
};

}  // namespace troupe::net
