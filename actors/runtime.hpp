// The composition root: spawns the actors, connects and monitors them, and implements the embedding
// API (core::generation_engine). It has a CAF system of its own or uses a host's
// (actors/embedding/caf_system.hpp); no CAF type shows either way. The only place that chooses
// which actors are detached. If scheduler, allocator, executor or mover dies the runtime stops as a
// whole: every request ends as engine_failed and `on_fatal` is called once. It never exits the
// process itself.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "actors/api/generation.hpp"
#include "actors/api/observer.hpp"
#include "actors/core/scheduler_machine.hpp"
#include "config/runtime_config.hpp"
#include "gpu/backend.hpp"
#include "gpu/model/loaded_model.hpp"

namespace caf {
class actor_system;
}

namespace troupe {

class runtime final : public core::generation_engine {
 public:
  /// Threads that a runtime with a CAF system of its own starts in all.
  static std::uint32_t threads_needed(const runtime_config& config);

  /// The observer and `on_fatal`'s targets must outlive the runtime. `on_fatal` is called once,
  /// from an actor's thread: it must not destroy the runtime there. Throws thread_error.
  runtime(const runtime_config& config, std::shared_ptr<const gpu::loaded_model> model,
          std::shared_ptr<gpu::backend> device, core::observer& watcher,
          std::function<void(const std::string&)> on_fatal);
  /// Inside a host's system: see actors/embedding/caf_system.hpp.
  runtime(caf::actor_system& host, const runtime_config& config,
          std::shared_ptr<const gpu::loaded_model> model, std::shared_ptr<gpu::backend> device,
          core::observer& watcher, std::function<void(const std::string&)> on_fatal);
  /// Ends every request (shutdown), waits for the step in flight and until all actors of the
  /// runtime are gone. Not from an actor's thread.
  ~runtime() override;

  std::shared_ptr<core::generation> submit(core::generation_request,
                                           std::weak_ptr<core::generation_sink>) override;
  std::vector<std::shared_ptr<core::generation>> submit_choices(
      core::generation_request, std::vector<core::answer_choice>) override;
  const core::model_card& card() const override;
  core::engine_health health() const override;
  std::vector<token_id> encode(const core::generation_request&) const override;
  std::string decode(const std::vector<token_id>&) const override;
  std::string token_bytes(token_id) const override;
  core::time_us now() const override;
  core::engine_probe* probe() override;

  /// Refuses new requests from now on; running ones go on to their end.
  void drain();
  /// Ends every request, those in flight after their step.
  void stop(core::end_reason why);
  /// Waits until no request is left after drain() or stop(). False: the time was over first.
  bool wait_stopped(std::chrono::milliseconds at_most) const;
  /// `call` comes from an actor's thread when wait_stopped() has become true; at once if it is.
  void when_stopped(const std::function<void()>& call);

  const core::scheduler_limits& limits() const;

 private:
  friend struct runtime_access;  // of actor_of(), actors/embedding/caf_system.hpp
  struct impl;
  runtime(std::unique_ptr<impl>, std::function<void(const std::string&)> on_fatal);
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
