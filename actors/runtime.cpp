#include "actors/runtime.hpp"

#include <algorithm>
#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "actors/allocator_actor.hpp"
#include "actors/clock.hpp"
#include "actors/engine_actor.hpp"
#include "actors/executor_actor.hpp"
#include "actors/mover_actor.hpp"
#include "actors/runtime/runtime_actors.hpp"
#include "actors/runtime/runtime_limits.hpp"
#include "actors/runtime/runtime_probe.hpp"
#include "actors/runtime/runtime_system.hpp"
#include "actors/runtime/session_start.hpp"
#include "actors/runtime/supervisor.hpp"
#include "actors/scheduler_actor.hpp"
#include "actors/session/prompt.hpp"
#include "actors/session/session_actor.hpp"

namespace troupe {

struct runtime::impl {
  /// `host_system` null: the runtime makes a system of its own.
  impl(caf::actor_system* host_system, const runtime_config& config,
       std::shared_ptr<const gpu::loaded_model> loaded, std::shared_ptr<gpu::backend> backend,
       core::observer& observer)
      : limits(make_limits(config, *loaded, backend->info())),
        card(make_card(config, *loaded, limits)),
        device(std::move(backend)),
        watcher(&observer),
        gauges(std::make_shared<scheduler_gauges>()),
        own(host_system ? nullptr : std::make_unique<own_system>()),
        // A host that ends its system first ends these actors on purpose: no fault is reported, and
        // health says failed from then on.
        actors(host_system ? *host_system : own->get(),
               [shown = gauges] { shown->set_over(shown->failed); }) {
    if (host_system) check_system(*host_system);
    context.choice.model = std::move(loaded);
    context.choice.watcher = watcher;
    context.choice.outbound_bytes_max = config.max_outbound_bytes;
    context.model_context = limits.model_context;
    context.deadlines = limits.deadlines;
    reader_limit = std::chrono::milliseconds(to_ms(config.client_send_timeout_s));
    context.choice.keep_prefix = config.on_disconnect == "keep_prefix";
    forget_release = config.plant_leak;
    if (limits.park) host = std::make_shared<host_memory>(config.kv_offloading_bytes, *device);
  }

  core::scheduler_limits limits;
  core::model_card card;
  std::shared_ptr<gpu::backend> device;
  std::shared_ptr<host_memory> host;  // null: preempted requests are recomputed
  core::observer* watcher;
  std::shared_ptr<scheduler_gauges> gauges;
  session_context context;
  std::atomic<std::uint64_t> last_request{0};
  std::unique_ptr<own_system> own;
  runtime_actors actors;
  protocol::allocator_actor allocator;
  // Weak, because a handle would keep the thread of a detached actor when the system ends first.
  // The scheduler holds the handles while it lives.
  caf::weak_actor_ptr executor, mover;
  caf::actor guard;
  std::optional<runtime_probe> probe;
  std::atomic<bool> stopping{false};
  std::uint32_t forget_release = 0;  // a planted leak
  std::mutex engine_actor_mutex;
  engine_shell engine_actor_handle;  // null until a host asks for it
  std::chrono::milliseconds reader_limit;
};

std::uint32_t runtime::threads_needed(const runtime_config& config) {
  const std::uint32_t executor = 1, mover = parks(config) ? 1 : 0;
  return own_system::threads_needed() + executor + mover;
}

runtime::runtime(const runtime_config& config, std::shared_ptr<const gpu::loaded_model> model,
                 std::shared_ptr<gpu::backend> device, core::observer& watcher,
                 std::function<void(const std::string&)> on_fatal)
    : runtime(std::make_unique<impl>(nullptr, config, std::move(model), std::move(device), watcher),
              std::move(on_fatal)) {}

runtime::runtime(caf::actor_system& host, const runtime_config& config,
                 std::shared_ptr<const gpu::loaded_model> model,
                 std::shared_ptr<gpu::backend> device, core::observer& watcher,
                 std::function<void(const std::string&)> on_fatal)
    : runtime(std::make_unique<impl>(&host, config, std::move(model), std::move(device), watcher),
              std::move(on_fatal)) {}

runtime::runtime(std::unique_ptr<impl> parts, std::function<void(const std::string&)> on_fatal)
    : impl_(std::move(parts)) {
  auto& x = *impl_;
  // The actors report when they first run, which may be after the first scrape: what is known now
  // is reported now.
  core::pool_record whole;
  const auto blocks = x.limits.num_blocks * x.limits.groups();
  whole.total = blocks;
  x.watcher->on_pool(whole);
  if (x.host) x.watcher->on_host_tier({x.host->slots(), 0, 0});
  const auto scheduler = x.actors.spawn(scheduler_actor, x.limits, x.gauges, x.watcher);
  x.context.scheduler = scheduler;
  const core::ledger_options pool{blocks, x.limits.block_size, x.limits.prefix_caching,
                                  x.limits.groups()};
  x.allocator = x.actors.spawn(allocator_actor, pool, x.forget_release, scheduler, x.watcher);
  // Detached: a step blocks its thread, and a worker of CAF's pool must never block.
  const auto executor =
      x.actors.spawn<caf::detached>(executor_actor, x.device, scheduler, x.watcher);
  x.executor = caf::actor_cast<caf::weak_actor_ptr>(executor);
  protocol::mover_actor mover;
  if (x.host)  // detached: the checksums of a chunk take about a millisecond
    mover = x.actors.spawn<caf::detached>(mover_actor, x.device, x.host, scheduler, x.watcher);
  x.mover = caf::actor_cast<caf::weak_actor_ptr>(mover);
  const protocol::scheduler_neighbours driven{x.allocator, executor, mover};
  caf::anon_send(scheduler, driven);
  x.probe.emplace(x.actors, scheduler, driven);
  std::vector<caf::strong_actor_ptr> watched{caf::actor_cast<caf::strong_actor_ptr>(scheduler),
                                             caf::actor_cast<caf::strong_actor_ptr>(x.allocator),
                                             caf::actor_cast<caf::strong_actor_ptr>(executor)};
  if (mover) watched.push_back(caf::actor_cast<caf::strong_actor_ptr>(mover));
  x.guard = x.actors.spawn(supervisor, watched, x.gauges, x.watcher, std::move(on_fatal));
}

runtime::~runtime() {
  auto& x = *impl_;
  stop(core::end_reason::shutdown);
  wait_stopped(std::chrono::seconds(30));
  x.gauges->on_over({});
  x.gauges->set_over(x.gauges->failed);  // from here on the exit of an actor is no fault
  // The engine actor is stopped last: it forwards the sessions' end events to the host's actors.
  x.actors.end_all(caf::actor_cast<caf::strong_actor_ptr>(x.engine_actor_handle));
}

// One actor per request, spawned from the caller's thread: reading the prompt, the first expensive
// part, already runs on the actors' threads.
std::shared_ptr<core::generation> runtime::submit(core::generation_request request,
                                                  std::weak_ptr<core::generation_sink> sink) {
  const auto seed = request.decode.sampling.seed;
  return submit_choices(std::move(request), {{seed, std::move(sink)}}).front();
}

std::vector<std::shared_ptr<core::generation>> runtime::submit_choices(
    core::generation_request asked, std::vector<core::answer_choice> choices) {
  if (choices.empty()) return {};
  const auto request = std::make_shared<const core::generation_request>(std::move(asked));
  std::vector<choice_client> clients;
  clients.reserve(choices.size());
  for (const auto& choice : choices)
    clients.push_back({core::request_id{++impl_->last_request}, request, choice.seed, choice.sink,
                       std::make_shared<std::atomic<core::life_phase>>(core::life_phase::queued),
                       std::make_shared<std::atomic<core::time_us>>(0)});
  return start_session(impl_->actors, impl_->context, clients);
}

core::engine_probe* runtime::probe() {
  return &*impl_->probe;
}
const core::model_card& runtime::card() const {
  return impl_->card;
}
const core::scheduler_limits& runtime::limits() const {
  return impl_->limits;
}

core::engine_health runtime::health() const {
  return impl_->gauges->health(now());
}

// Synchronous, on the caller's thread, in slices so that a giant text does not hold up a shutdown.
std::vector<token_id> runtime::encode(const core::generation_request& request) const {
  constexpr std::size_t slice = 1 << 20;
  try {
    prompt_tokenization reading(*impl_->context.choice.model, request);
    while (!reading.advance(slice))
      if (impl_->stopping) throw std::invalid_argument("the runtime is shutting down");
    return reading.take();
  } catch (const prompt_error& e) {
    throw std::invalid_argument(e.message);
  }
}

std::string runtime::decode(const std::vector<token_id>& tokens) const {
  return decoded_text(impl_->context.choice.model->vocabulary, tokens);
}

std::string runtime::token_bytes(token_id token) const {
  return impl_->context.choice.model->vocabulary.bytes(token);
}

core::time_us runtime::now() const {
  return to_time_us(std::chrono::steady_clock::now());
}

void runtime::drain() {
  impl_->gauges->draining = true;
  impl_->actors.while_open([&] { caf::anon_send(impl_->context.scheduler, core::drain{}); });
}

void runtime::stop(core::end_reason why) {
  impl_->gauges->draining = impl_->stopping = true;
  impl_->actors.while_open([&] {
    caf::anon_send(impl_->context.scheduler, core::stop{why, "the server is shutting down"});
  });
}

bool runtime::wait_stopped(std::chrono::milliseconds at_most) const {
  return impl_->gauges->wait_over(at_most);
}

void runtime::when_stopped(const std::function<void()>& call) {
  impl_->gauges->on_over(call);
}

struct runtime_access {
  static protocol::engine_actor of(runtime& engine) {
    auto& x = *engine.impl_;
    const std::lock_guard lock(x.engine_actor_mutex);
    if (!x.engine_actor_handle && !x.actors.system_gone())
      x.engine_actor_handle =
          x.actors.spawn(engine_actor, &engine, x.context.choice.model, x.watcher, x.reader_limit);
    return x.actors.system_gone() ? protocol::engine_actor{}
                                  : protocol::engine_actor{x.engine_actor_handle};
  }
};

protocol::engine_actor actor_of(runtime& engine) {
  return runtime_access::of(engine);
}

}  // namespace troupe
