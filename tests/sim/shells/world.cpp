// Making a run, and one step of it. The disturbances and the end of a run are in world_events.cpp.
#include "tests/sim/shells/world.hpp"

#include <algorithm>

#include "actors/allocator_actor.hpp"
#include "actors/clock.hpp"
#include "actors/executor_actor.hpp"
#include "actors/mover_actor.hpp"
#include "actors/protocol/engine.hpp"
#include "tests/sim/shells/message_text.hpp"

namespace troupe::sim {
namespace {

constexpr std::uint32_t handled_at_most = 5000;
constexpr std::uint32_t timers_at_rest_at_most = 60;

}  // namespace

coordinator_config::coordinator_config() {
  add_message_types<caf::id_block::troupe>();
  set("scheduler.policy", caf::atom("testing"));
}

world::world(coordinator_config& config, const scenario& of,
             std::shared_ptr<const gpu::loaded_model> model, chooser& choices, bool keep_story)
    : of_(of),
      model_(std::move(model)),
      choices_(choices),
      keep_story_(keep_story),
      referee_(of),
      device_(std::make_shared<device>(of.limits.block_size, of.limits.num_blocks)),
      system_(config),
      coordinator_(static_cast<caf::scheduler::test_coordinator&>(system_.scheduler())),
      faults_left_(of.fault_budget) {
  system_.await_actors_before_shutdown(false);
  coordinator_.clock().current_time += std::chrono::hours(1);  // time 0 means "not set" in records
  if (of.host_slots > 0)
    host_ = std::make_shared<host_memory>(of.host_slots * device_->info().kv.largest_block_bytes(),
                                          *device_);
  spawn_engine();
  clients_.resize(of.clients.size());
  for (std::uint32_t i = 0; i < clients_.size(); ++i) spawn_client(i);
}

world::~world() {
  device_->drop_copies();
  for (auto* on : edges_) on->cut();
  for (const auto& actor : engine_) caf::anon_send_exit(actor, caf::exit_reason::kill);
  for (auto& one : clients_)
    caf::anon_send_exit(caf::actor_cast<caf::actor>(one.session), caf::exit_reason::kill);
  run_jobs();
  coordinator_.trigger_timeouts();  // pending timers hold handles of the actors
  run_jobs();
}

edge* world::new_edge(edge_kind kind, std::uint32_t session) {
  caf::actor_config config;
  auto handle = caf::make_actor<edge, caf::actor>(system_.next_actor_id(), system_.node(), &system_,
                                                  config, kind, session, static_cast<tap*>(this));
  auto* out = static_cast<edge*>(caf::actor_cast<caf::abstract_actor*>(handle));
  edge_handles_.push_back(std::move(handle));
  edges_.push_back(out);
  return out;
}

template <class Handle>
Handle world::handle_of(edge* of) {
  return caf::actor_cast<Handle>(caf::strong_actor_ptr(of->ctrl()));
}

void world::spawn_engine() {
  const auto scheduler = system_.spawn(scheduler_actor, of_.limits, gauges_, &referee_);
  const auto scheduler_ptr = caf::actor_cast<caf::strong_actor_ptr>(scheduler);
  engine_.push_back(scheduler_ptr);
  runtime_ = new_edge(edge_kind::from_runtime, 0);
  runtime_->connect(scheduler_ptr, nullptr);
  protocol::scheduler_neighbours neighbours;
  // An actor beside the scheduler, the edge to it and the edge back.
  const auto place = [&](edge_kind there, edge_kind back, auto spawn) {
    edge *to = new_edge(there, 0), *from = new_edge(back, 0);
    from->connect(scheduler_ptr, nullptr);
    const auto actor =
        caf::actor_cast<caf::strong_actor_ptr>(spawn(handle_of<protocol::scheduler_actor>(from)));
    to->connect(actor, from);
    engine_.push_back(actor);
    return to;
  };
  const core::ledger_options pool{of_.limits.num_blocks, of_.limits.block_size,
                                  of_.limits.prefix_caching};
  neighbours.allocator = handle_of<protocol::allocator_actor>(
      place(edge_kind::to_allocator, edge_kind::from_allocator,
            [&](const protocol::scheduler_actor& answers) {
              return system_.spawn(allocator_actor, pool, 0u, answers, &referee_);
            }));
  neighbours.executor = handle_of<protocol::executor_actor>(
      place(edge_kind::to_executor, edge_kind::from_executor,
            [&](const protocol::scheduler_actor& answers) {
              return system_.spawn(executor_actor, std::shared_ptr<gpu::backend>(device_), answers,
                                   &referee_);
            }));
  if (host_)
    neighbours.mover = handle_of<protocol::mover_actor>(place(
        edge_kind::to_mover, edge_kind::from_mover, [&](const protocol::scheduler_actor& answers) {
          return system_.spawn(mover_actor, std::shared_ptr<gpu::backend>(device_), host_, answers,
                               &referee_);
        }));
  run_jobs();
  send(*runtime_, std::move(neighbours));
  drain_edges();
}

void world::spawn_client(std::uint32_t index) {
  auto& one = clients_[index];
  one.wants = &of_.clients[index];
  one.to = new_edge(edge_kind::to_session, index);
  one.from = new_edge(edge_kind::from_session, index);
  one.from_client = new_edge(edge_kind::client, index);
  one.sink = std::make_shared<reader>(*one.wants, index, referee_, [this, index] {
    send(*clients_[index].from_client, protocol::delivered{core::request_id{index + 1}});
  });
  one.phase = std::make_shared<std::atomic<core::life_phase>>(core::life_phase::queued);
  auto request = std::make_shared<core::generation_request>();
  request->prompt = one.wants->prompt;
  request->decode.max_tokens = one.wants->max_tokens;
  request->decode.sampling.seed = one.wants->seed;
  request->priority = one.wants->priority;
  request->stop = one.wants->stop;
  request->deadlines = one.wants->deadlines;
  session_context context;
  context.choice.model = model_;
  context.scheduler = handle_of<protocol::scheduler_actor>(one.from);
  context.choice.watcher = &referee_;
  context.choice.outbound_bytes_max = of_.outbound_bytes_max;
  one.session =
      system_.spawn(session_actor, context,
                    std::vector<choice_client>{{core::request_id{index + 1}, request,
                                                one.wants->seed, one.sink, one.phase, nullptr}});
  const auto session = caf::actor_cast<caf::strong_actor_ptr>(one.session);
  one.to->connect(session, one.from);
  one.from_client->connect(session, nullptr);
  one.from->connect(engine_.front(), one.to);
  one.from->present_session_as(handle_of<protocol::session_actor>(one.to));
  session->get()->attach_functor([this, index](const caf::error& why) {
    auto& dead = clients_[index];
    dead.alive = false;
    dead.to->target_died(why);
    dead.from_client->target_died(why);
  });
  run_jobs();
  send(*one.from_client, protocol::begin{});
}

std::uint64_t world::sent(const edge& on, const caf::type_erased_tuple& what) {
  referee_.sent(on, what);
  if (const auto* end = as<core::ended>(what); end && end->why == core::end_reason::slow_reader)
    check_slow_reader(on);
  return ++numbers_;
}

core::time_us world::now() const {
  return to_time_us(coordinator_.clock().now());
}

void world::note(std::string what) {
  if (keep_story_) out_.story.push_back(std::move(what));
}

// ---- one step

outcome world::run() {
  while (referee_.broken().empty()) {
    options_.clear();
    collect_steady();
    const bool waiting = options_.empty();
    if (waiting) {
      if (at_rest()) break;
      collect_readers();
      collect_timer();
      if (options_.empty()) {
        referee_.complain("nothing can happen any more and a session still waits");
        break;
      }
    } else {
      timers_at_rest_ = 0;
    }
    const auto steady = static_cast<std::uint32_t>(options_.size());
    if (!waiting) collect_readers();
    if (faults_left_ > 0) collect_disturbances();
    const auto count = static_cast<std::uint32_t>(options_.size());
    perform(options_[count == 1 ? 0 : choices_.pick(count, steady)]);
    if (++out_.handled > handled_at_most) referee_.complain("the run does not come to rest");
  }
  if (referee_.broken().empty()) wind_up();
  out_.violation = referee_.broken();
  out_.taken = choices_.taken();
  out_.preemptions = referee_.preemptions;
  out_.parks = referee_.parks;
  return std::move(out_);
}

// The oldest message of each edge and the oldest copy, oldest first: what happens without a
// disturbance.
void world::collect_steady() {
  for (std::uint32_t i = 0; i < edges_.size(); ++i)
    if (!edges_[i]->empty())
      options_.push_back({action::deliver, fault::count, i, edges_[i]->oldest()});
  if (!copy_numbers_.empty())
    options_.push_back({action::end_copy, fault::count, 0, copy_numbers_.front()});
  std::sort(options_.begin(), options_.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
}

// A reader that has stopped may read on at any time. When no message waits, it or the timer is the
// only thing that can go on.
void world::collect_readers() {
  for (std::uint32_t i = 0; i < clients_.size(); ++i)
    if (clients_[i].sink && !clients_[i].sink->reads())
      options_.push_back({action::read_on, fault::count, i, 0});
}

void world::collect_timer() {
  if (coordinator_.has_pending_timeout() && timers_at_rest_ < timers_at_rest_at_most)
    options_.push_back({action::timer, fault::count, 0, 0});
}

bool world::at_rest() const {
  return std::none_of(clients_.begin(), clients_.end(), [](const auto& one) { return one.alive; });
}

void world::perform(const option& chosen) {
  switch (chosen.what) {
    case action::deliver:
      return deliver(*edges_[chosen.at]);
    case action::end_copy:
      note("the oldest copy ends");
      referee_.copy_ends();
      copy_numbers_.erase(copy_numbers_.begin());
      device_->end_copy(device::copy_end::ok);
      break;
    case action::read_on:
      note("the reader of session " + std::to_string(chosen.at + 1) + " reads on");
      clients_[chosen.at].sink->read_on();
      break;
    case action::timer:
      note("the next timer");
      ++timers_at_rest_;
      time_moves();
      coordinator_.trigger_timeout();
      break;
    case action::disturb:
      --faults_left_;
      ++out_.disturbances;
      out_.fault_kinds |= bit(chosen.disturbance);
      disturb(chosen.disturbance, chosen.at);
      break;
  }
  run_jobs();
  referee_.handled();
  check_clients();
}

void world::run_jobs() {
  while (coordinator_.has_job()) coordinator_.run_once();
  if (!device_) return;
  while (copy_numbers_.size() < device_->copies()) copy_numbers_.push_back(++numbers_);
}

void world::deliver(edge& on) {
  const auto& what = on.head();
  if (keep_story_) note(message_text(on, what));
  referee_.handling(on, what);
  bool was_cancel = false, was_token = false, cancel_sent = false;
  if (on.kind() == edge_kind::client || on.kind() == edge_kind::to_session) {
    auto& one = clients_[on.session()];
    cancel_sent =
        referee_.cancel_sent(on.session()) || *one.phase == core::life_phase::done || !one.alive;
    was_cancel = as<core::cancel>(what) != nullptr;
    if (const auto* tokens = as<core::tokens_out>(what))
      was_token = tokens->token && !tokens->is_end;
    if (as<protocol::delivered>(what))
      one.outstanding = std::exchange(one.behind, 0) > 0 && one.sink;
  }
  on.deliver();
  run_jobs();
  referee_.handled();
  after_handling(on, was_cancel, was_token, cancel_sent);
  check_clients();
}

// A session that gets a cancel, or finds its client gone when it delivers, must tell the scheduler
// in the same handler: that is what bounds the time to release.
void world::after_handling(const edge& on, bool was_cancel, bool was_token, bool forwarded_before) {
  if (on.kind() != edge_kind::client && on.kind() != edge_kind::to_session) return;
  auto& one = clients_[on.session()];
  const bool delivers = was_token && !one.outstanding;
  if (!forwarded_before && *one.phase != core::life_phase::done) check_reader(on, was_token);
  if (delivers && one.sink) one.outstanding = true;
  const bool must = was_cancel || (delivers && !one.sink);
  if (must && !forwarded_before && !referee_.cancel_sent(on.session()) &&
      *one.phase != core::life_phase::done)
    referee_.complain("session " + std::to_string(on.session() + 1) +
                      " did not tell the scheduler that its client left");
}

// Every token of the tiny vocabulary is one byte of text, so the tokens since the last delta are
// the bytes by which the reader is behind.
void world::check_reader(const edge& on, bool was_token) {
  auto& one = clients_[on.session()];
  if (was_token && one.outstanding) ++one.behind;
  const bool reported = referee_.stall_reported(on.session());
  const auto name = "session " + std::to_string(on.session() + 1);
  if (one.behind > of_.outbound_bytes_max && !reported)
    referee_.complain(name + " did not report that its reader is behind");
  if (one.behind == 0 && reported)
    referee_.complain(name + " did not report that its reader has caught up");
}

// The scheduler checks how long a reader has stalled on its tick only, so a slow reader is judged
// by what was true when the clock moved.
void world::time_moves() {
  referee_.time_moved();
  for (auto& one : clients_)
    one.may_be_slow = one.may_be_slow || !one.sink || !one.sink->reads() ||
                      !one.from_client->empty() || !one.from->empty();
}

void world::check_slow_reader(const edge& on) {
  if (!clients_[on.session()].may_be_slow)
    referee_.complain("session " + std::to_string(on.session() + 1) +
                      " ended as slow_reader although its reader kept up");
}

void world::check_clients() {
  if (referee_.serves_requests() && !coordinator_.has_pending_timeout())
    referee_.complain("a request is running and no timer is set");
  for (std::uint32_t i = 0; i < clients_.size(); ++i) {
    const auto& one = clients_[i];
    if (!one.alive && one.from->empty() && referee_.is_running(i))
      referee_.complain("session " + std::to_string(i + 1) +
                        " died and the scheduler does not learn of it");
    if (one.sink && one.sink->ended() && *one.phase != core::life_phase::done)
      referee_.complain("client " + std::to_string(i + 1) +
                        " has its end, but its handle does not say done");
  }
}

}  // namespace troupe::sim
