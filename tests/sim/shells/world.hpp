// One run: the real shells under CAF's test_coordinator, an edge for every directed pair, the
// simulated device, the clients and their disturbances. At each point the chooser picks the message
// that is handled next, or a disturbance; one message is handled at a time, from an edge straight
// through its actor. Everything is made for the run and ends with it.
#pragma once
#include <caf/actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/attachable.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/monitorable_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/send.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <memory>
#include <string>
#include <vector>

#include "actors/host_memory.hpp"
#include "actors/scheduler_actor.hpp"
#include "actors/session/session_actor.hpp"
#include "tests/sim/shells/choices.hpp"
#include "tests/sim/shells/device.hpp"
#include "tests/sim/shells/reader.hpp"

namespace troupe::sim {

/// The configuration of the run's actor systems. Making one costs more than a run, so there is one
/// per thread.
struct coordinator_config : caf::actor_system_config {
  coordinator_config();
};

struct outcome {
  std::string violation;  ///< empty: none
  trace taken;
  std::uint32_t handled = 0;  ///< messages
  std::uint32_t disturbances = 0;
  std::uint32_t fault_kinds = 0;  ///< bits of the disturbances that happened
  std::uint64_t preemptions = 0, parks = 0;
  std::vector<std::string> story;  ///< one line per message; empty unless wanted
};

class world final : public tap {
 public:
  /// All arguments must outlive it. `keep_story`: record every message as text.
  world(coordinator_config& config, const scenario& of,
        std::shared_ptr<const gpu::loaded_model> model, chooser& choices, bool keep_story);
  ~world() override;
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  /// Once. Throws divergence.
  outcome run();

  std::uint64_t sent(const edge& on, const caf::type_erased_tuple& what) override;

 private:
  struct client {
    const client_request* wants = nullptr;
    std::shared_ptr<reader> sink;  // null: the client has left
    edge *to = nullptr, *from = nullptr, *from_client = nullptr;
    protocol::session_actor session;
    shared_phase phase;
    bool alive = true;
    bool outstanding = false;  // a delta was delivered and not confirmed yet
    std::uint32_t cancels = 0;
    std::uint64_t behind = 0;  // bytes that became ready since that delta
    bool may_be_slow = false;  // when time moved it did not read, or its confirmation was in flight
    faults met = 0;
  };
  enum class action : std::uint8_t { deliver, end_copy, read_on, timer, disturb };
  struct option {
    action what;
    fault disturbance = fault::count;
    std::uint32_t at = 0;      // edge or client
    std::uint64_t number = 0;  // of the message or copy: lower is older
  };

  // Making.
  edge* new_edge(edge_kind kind, std::uint32_t session);
  template <class Handle>
  Handle handle_of(edge* of);
  void spawn_engine();
  void spawn_client(std::uint32_t index);
  // A step of the run.
  void collect_steady();
  void collect_readers();
  void collect_timer();
  void collect_disturbances();
  void offer(fault f, std::uint32_t client = 0);
  bool available(fault f, const client& of) const;
  bool at_rest() const;
  void perform(const option& chosen);
  void deliver(edge& on);
  void disturb(fault f, std::uint32_t index);
  void disturb_client(fault f, std::uint32_t index);
  void run_jobs();
  void after_handling(const edge& on, bool was_cancel, bool was_token, bool forwarded_before);
  void check_reader(const edge& on, bool was_token);
  void check_slow_reader(const edge& on);
  void time_moves();
  void check_released();
  void check_clients();
  // The end of it.
  void wind_up();
  void drain_edges();
  void check_ends();
  bool has_cause(const client& of, const core::generation_end& end) const;

  template <class Message>
  void send(edge& on, Message what) {
    on.enqueue(caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, std::move(what)),
               nullptr);
  }
  core::time_us now() const;
  void note(std::string what);

  const scenario& of_;
  std::shared_ptr<const gpu::loaded_model> model_;
  chooser& choices_;
  bool keep_story_;
  referee referee_;
  std::shared_ptr<device> device_;
  std::shared_ptr<host_memory> host_;
  std::shared_ptr<scheduler_gauges> gauges_ = std::make_shared<scheduler_gauges>();
  caf::actor_system system_;
  caf::scheduler::test_coordinator& coordinator_;
  std::vector<caf::actor> edge_handles_;
  std::vector<edge*> edges_;
  std::vector<caf::strong_actor_ptr> engine_;
  edge* runtime_ = nullptr;
  std::vector<client> clients_;
  std::vector<option> options_;
  std::vector<std::uint64_t> copy_numbers_;
  std::uint64_t numbers_ = 0;
  std::uint32_t faults_left_, timers_at_rest_ = 0;
  bool stopped_ = false, draining_ = false;
  outcome out_;
};

}  // namespace troupe::sim
