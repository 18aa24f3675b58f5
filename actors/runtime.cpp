#include "actors/runtime.hpp"

#include <algorithm>
#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <filesystem>
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
#include "actors/runtime/runtime_probe.hpp"
#include "actors/runtime/runtime_system.hpp"
#include "actors/scheduler_actor.hpp"
#include "actors/session/prompt.hpp"
#include "actors/session/session_actor.hpp"

namespace troupe {
namespace {

/// Keeps the first time only: several events may report the same client as gone.
void note(std::atomic<core::time_us>& time, core::time_us seen) {
  core::time_us none = 0;
  time.compare_exchange_strong(none, seen);
}

/// The caller's handle of one session.
class session_handle final : public core::generation {
 public:
  session_handle(core::request_id id, protocol::session_actor session, shared_phase phase,
                 shared_time left_at)
      : id_(id),
        session_(std::move(session)),
        phase_(std::move(phase)),
        left_at_(std::move(left_at)) {}
  core::request_id id() const override { return id_; }
  core::life_phase phase() const override { return *phase_; }
  void delivered() override { caf::anon_send(session_, protocol::delivered{id_}); }
  void cancel(core::end_reason why, core::time_us seen_at) override {
    note(*left_at_, seen_at);
    caf::anon_send(session_, core::cancel{id_, why, seen_at});
  }

 private:
  core::request_id id_;
  protocol::session_actor session_;
  shared_phase phase_;
  shared_time left_at_;
};

/// Handle of a request that came after the runtime had ended: it ended before it began.
class ended_handle final : public core::generation {
 public:
  explicit ended_handle(core::request_id id) : id_(id) {}
  core::request_id id() const override { return id_; }
  core::life_phase phase() const override { return core::life_phase::done; }
  void delivered() override {}
  void cancel(core::end_reason, core::time_us) override {}

 private:
  core::request_id id_;
};

/// Monitors the engine's actors; the first death is fatal.
caf::behavior supervisor(caf::event_based_actor* self,
                         const std::vector<caf::strong_actor_ptr>& watched,
                         const std::shared_ptr<scheduler_gauges>& gauges, core::observer* watcher,
                         const std::function<void(const std::string&)>& on_fatal) {
  constexpr const char* roles[] = {"scheduler", "allocator", "executor", "mover"};
  std::vector<caf::actor_addr> addresses;
  for (const auto& actor : watched) {
    addresses.push_back(caf::actor_cast<caf::actor_addr>(actor));
    self->monitor(addresses.back());
  }
  self->set_down_handler([=](const caf::down_msg& down) {
    // Before the runtime ends its own actors it sets `failed`, so that their exits are no fault.
    if (gauges->failed || down.reason == caf::exit_reason::user_shutdown) return;
    gauges->set_over(gauges->failed);
    const auto found =
        std::find(addresses.begin(), addresses.end(), down.source) - addresses.begin();
    try {
      on_fatal(std::string("the ") + roles[std::min<std::ptrdiff_t>(found, 3)] +
               " died: " + caf::to_string(down.reason));
    } catch (...) {
      watcher->on_violation("on_fatal has thrown");
    }
  });
  return {[](const protocol::begin&) {}};
}

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

core::model_card make_card(const runtime_config& config, const gpu::loaded_model& model,
                           const core::scheduler_limits& limits) {
  core::model_card card;
  card.name = config.served_model_names.empty()
                  ? std::filesystem::path(config.model).stem().string()
                  : config.served_model_names.front();
  card.context = limits.effective_context();
  card.model_context = limits.model_context;
  card.created = unix_seconds();
  card.vocab = model.config.vocab;
  if (model.vocabulary.bos() >= 0) card.bos = model.vocabulary.bytes(model.vocabulary.bos());
  if (const auto eos = model.file.find_uint("tokenizer.ggml.eos_token_id"))
    card.eos = model.vocabulary.bytes(static_cast<token_id>(*eos));
  if (const auto* text = model.file.find_string("tokenizer.chat_template"))
    card.chat_template = *text;
  return card;
}

/// Preempted sequences go to a host tier.
bool parks(const runtime_config& config) {
  return config.kv_offloading_bytes > 0 && config.preemption != "recompute";
}

std::uint64_t to_ms(double seconds) {
  return static_cast<std::uint64_t>(seconds * 1000.0);
}

}  // namespace

core::scheduler_limits make_limits(const runtime_config& config, const gpu::loaded_model& model,
                                   const gpu::device_info& device) {
  core::scheduler_limits limits;
  limits.max_num_seqs = config.max_num_seqs;
  limits.max_num_batched_tokens = config.max_num_batched_tokens;
  limits.max_step_us = std::uint64_t{config.max_step_ms} * 1000;
  limits.max_num_queued_reqs = config.max_num_queued_reqs;
  limits.block_size = device.kv.block_size;
  limits.num_blocks = device.kv.num_blocks();
  limits.model_context = config.max_model_len == 0
                             ? model.config.context
                             : std::min(model.config.context, config.max_model_len);
  limits.end_tokens = model.vocabulary.end_tokens();
  limits.vocab = model.config.vocab;
  limits.deadlines = {to_ms(config.queue_timeout_s), to_ms(config.first_token_timeout_s),
                      to_ms(config.request_timeout_s)};
  limits.prefix_caching = config.enable_prefix_caching;
  limits.stall_limit_us = to_ms(config.reader_stall_timeout_s) * 1000;
  limits.park = parks(config);
  limits.move_chunk_blocks = config.kv_transfer_chunk_blocks;
  limits.move_limit_us = to_ms(config.kv_transfer_timeout_s) * 1000;
  return limits;
}

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
  whole.total = x.limits.num_blocks;
  x.watcher->on_pool(whole);
  if (x.host) x.watcher->on_host_tier({x.host->slots(), 0, 0});
  const auto scheduler = x.actors.spawn(scheduler_actor, x.limits, x.gauges, x.watcher);
  x.context.scheduler = scheduler;
  const core::ledger_options pool{x.limits.num_blocks, x.limits.block_size,
                                  x.limits.prefix_caching};
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
  for (const auto& choice : choices)
    clients.push_back({core::request_id{++impl_->last_request}, request, choice.seed, choice.sink,
                       std::make_shared<std::atomic<core::life_phase>>(core::life_phase::queued),
                       std::make_shared<std::atomic<core::time_us>>(0)});
  std::vector<std::shared_ptr<core::generation>> handles;
  const auto session = impl_->actors.spawn(session_actor, impl_->context, clients);
  if (session) caf::anon_send(session, protocol::begin{});
  for (const auto& client : clients) {
    const auto sink = client.sink.lock();
    if (!session) {
      core::generation_end end;
      end.reason = core::end_reason::shutdown;
      end.message = "the runtime is shutting down";
      if (sink) sink->end(std::move(end));
      handles.push_back(std::make_shared<ended_handle>(client.id));
      continue;
    }
    // Weak: a client may keep its sink long after the end, and must not keep the session.
    if (sink)
      sink->when_dropped([id = client.id, left_at = client.left_at,
                          weak = caf::actor_cast<caf::weak_actor_ptr>(session)] {
        const auto seen = to_time_us(std::chrono::steady_clock::now());
        note(*left_at, seen);
        if (const auto alive = weak.lock())
          caf::anon_send(caf::actor_cast<protocol::session_actor>(alive),
                         core::cancel{id, core::end_reason::client_gone, seen});
      });
    handles.push_back(
        std::make_shared<session_handle>(client.id, session, client.phase, client.left_at));
  }
  return handles;
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

// From atomics alone: health must answer when the scheduler's mailbox does not.
core::engine_health runtime::health() const {
  const auto& gauges = *impl_->gauges;
  core::engine_health health;
  health.failed = gauges.failed;
  health.draining = gauges.draining;
  health.running = gauges.running;
  health.waiting = gauges.waiting;
  if (gauges.busy)
    health.stalled_us =
        static_cast<std::uint64_t>(std::max<core::time_us>(0, now() - gauges.progress_at));
  return health;
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

void runtime::when_stopped(std::function<void()> call) {
  impl_->gauges->on_over(std::move(call));
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
