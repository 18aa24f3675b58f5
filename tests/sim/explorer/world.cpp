#include "tests/sim/explorer/world.hpp"

#include <algorithm>
#include <utility>

namespace troupe::core::sim {

namespace {

std::string token_text(token_id token) {
  return std::string(1, static_cast<char>('a' + token % 26));
}

session_machine session_of(request_id id, const client_script& script, const scenario& scene) {
  session_options o;
  o.request = id;
  o.stop.stops = script.stop;
  o.outbound_bytes_max = scene.outbound_bytes_max;
  return session_machine(std::move(o));
}

deadlines_ms deadlines_of(const client_script& script) {
  deadlines_ms out;
  if (script.deadline) out.total = long_time_us / 1000;
  return out;
}

prompt_reading reading_of(const client_script& script, const scenario& scene) {
  reading_limits limits;
  limits.context = scene.limits.model_context;
  limits.own = deadlines_of(script);
  return prompt_reading(limits);
}

}  // namespace

submit submit_of(const scenario& scene, std::size_t i) {
  const auto& script = scene.clients[i];
  submit s;
  s.request = request_id{i + 1};
  for (std::size_t k = 0; k < scene.clients.size(); ++k)
    if (scene.clients[k].tail_of == i)
      s.tails.push_back({request_id{k + 1}, scene.clients[k].seed});
  s.prompt = script.prompt;
  s.decode.max_tokens = script.max_tokens;
  s.priority = script.priority;
  s.keep_prefix = script.keep_prefix;
  s.decode.ignore_eos = true;
  s.deadlines = deadlines_of(script);
  return s;
}

world::world(const scenario& scene)
    : scene_(&scene),
      machine_(scene.limits),
      ledger_({scene.limits.num_blocks * scene.limits.groups(), scene.limits.block_size,
               scene.limits.prefix_caching, scene.limits.groups()}),
      moves_(scene.host_blocks),
      memory_(
          std::size_t{scene.limits.num_blocks} * scene.limits.groups() * scene.limits.block_size,
          -1) {
  for (std::size_t i = 0; i < scene.clients.size(); ++i)
    clients_.emplace_back(reading_of(scene.clients[i], scene),
                          session_of(id_of(i), scene.clients[i], scene));
  places_.total = scene.reading_places;
}

std::vector<choice> world::choices() const {
  using k = choice::kind;
  std::vector<choice> all;
  const auto may = [&](k what, std::size_t who = 0) {
    all.push_back({what, fault::disconnect, static_cast<std::uint8_t>(who)});
  };
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    const auto& c = clients_[i];
    if (c.state == life::not_begun && !scene_->clients[i].tail_of) may(k::submit, i);
    if (c.state == life::alive && has_turn(c)) may(k::turn, i);
    if (!c.up.empty()) may(k::to_scheduler, i);
    if (!c.down.empty()) may(k::to_session, i);
    if (c.outstanding && !c.withholds) may(k::delivered, i);
    if (c.withholds) may(k::resume, i);
  }
  if (!to_allocator_.empty()) may(k::to_allocator);
  if (!from_allocator_.empty()) may(k::from_allocator);
  if (!to_mover_.empty()) may(k::to_mover);
  for (std::size_t i = 0; i < copies_.size(); ++i) may(k::copy_done, i);
  if (!from_mover_.empty()) may(k::from_mover);
  if (plan_) may(k::step);
  if (result_) may(k::from_executor);
  if (faults_met_ >= scene_->faults_max) return all;

  const auto fails = [&](fault f, std::size_t who = 0) {
    if (scene_->faults & bit(f)) all.push_back({k::fault, f, static_cast<std::uint8_t>(who)});
  };
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    const auto& c = clients_[i];
    if (c.state == life::alive) {
      if (!c.session.finished()) fails(fault::disconnect, i);
      if (!c.withholds) fails(fault::stall, i);
      fails(fault::crash, i);
    }
    if (c.state != life::not_begun) fails(fault::cancel, i);
    if (!c.resubmitted && !scene_->clients[i].tail_of &&
        machine_.state_of(id_of(i)) != request_state::gone)
      fails(fault::repeat, i);
  }
  fails(fault::cancel, clients_.size());  // an id that no request has
  if (!machine_.idle()) fails(fault::time_passes);
  if (plan_) {
    fails(fault::step_failed);
    for (std::size_t i = 0; i < plan_->items.size(); ++i)
      if (plan_->items[i].sample) fails(fault::bad_logits, i);
  }
  for (std::size_t i = 0; i < copies_.size(); ++i) fails(fault::move_failed, i);
  if (!to_mover_.empty() && std::holds_alternative<move_in>(to_mover_.front()))
    fails(fault::corrupt);
  if (!ending_) fails(fault::drain);
  if (stops_ == 0) fails(fault::stop);
  return all;
}

void world::apply(const choice& c, cell_counts& cells, std::vector<std::string>* story) {
  story_ = story;
  note("* " + text_of(c));
  using k = choice::kind;
  switch (c.what) {
    case k::submit: {
      auto& x = clients_[c.who];
      x.state = life::alive;
      follow(c.who, x.reading.on_begin(0, now_));
      break;
    }
    case k::turn:
      follow(c.who, clients_[c.who].reading.on_turn(places_, now_));
      break;
    case k::to_scheduler:
      do_up(c.who, cells);
      break;
    case k::to_session:
      do_down(c.who);
      break;
    case k::to_allocator:
      do_allocator();
      break;
    case k::from_allocator: {
      const auto m = from_allocator_.take();
      if (const auto* d = std::get_if<denied>(&m);
          d && leases_.contains(d->lease) && leases_[d->lease][1] && !leases_[d->lease][2])
        leases_.erase(d->lease);  // closed by its denial
      std::visit(
          overloaded{
              [&](const granted& x) { schedule(x, column::granted, x.lease.request, cells); },
              [&](const denied& x) { schedule(x, column::denied, x.lease.request, cells); },
              [&](const released& x) { schedule(x, column::released, x.lease.request, cells); },
          },
          m);
      break;
    }
    case k::to_mover:
      do_mover(false);
      break;
    case k::copy_done:
      do_copy(c.who, true);
      break;
    case k::from_mover: {
      const auto m = from_mover_.take();
      const auto at = m.outcome == move_outcome::ok ? column::moved : column::move_failed;
      schedule_for_all(m, at, cells);
      break;
    }
    case k::step:
      do_step(false, std::nullopt);
      break;
    case k::from_executor: {
      const auto m = std::move(*result_);
      result_.reset();
      std::visit(overloaded{
                     [&](const step_done& x) { schedule_for_all(x, column::step_done, cells); },
                     [&](const step_failed& x) { schedule_for_all(x, column::step_failed, cells); },
                 },
                 m);
      break;
    }
    case k::delivered: {
      session_effects out;
      clients_[c.who].outstanding = false;
      clients_[c.who].session.on_delivered(out);
      run_session(c.who, out);
      break;
    }
    case k::resume:
      clients_[c.who].withholds = false;
      break;
    case k::fault:
      ++faults_met_;
      do_fault(c, cells);
      break;
  }
  check();
  story_ = nullptr;
}

// ---- messages

void world::do_up(std::size_t i, cell_counts& cells) {
  const auto m = clients_[i].up.take();
  const auto close = [&](const cancel& x) {
    const auto at = index_of(x.request);
    if (at < clients_.size() && machine_.state_of(x.request) != request_state::gone)
      clients_[at].closed = true;
    schedule(x, column::cancel, x.request, cells);
  };
  std::visit(
      overloaded{
          [&](const submit& x) { schedule(x, column::submit, x.request, cells); },
          [&](const cancel& x) { close(x); },
          [&](const reader_stalled& x) { schedule(x, column::reader_stalled, x.request, cells); },
          [&](const reader_resumed& x) { schedule(x, column::reader_resumed, x.request, cells); },
          [&](const down& x) {
            close(cancel{x.request, end_reason::session_crash, now_});
          },
      },
      m);
}

void world::do_down(std::size_t i) {
  auto& c = clients_[i];
  const auto m = c.down.take();
  session_effects out;
  std::visit(overloaded{
                 [&](const admitted& x) { c.session.on(x, out); },
                 [&](const refused& x) { c.session.on(x, out); },
                 [&](const tokens_out& x) {
                   if (!x.token) return;
                   decoded_token t;
                   t.text = token_text(x.token->token);
                   t.piece.token = x.token->token;
                   t.is_end = x.is_end;
                   t.cached_tokens = x.cached_tokens;
                   c.session.on_token(std::move(t), now_, out);
                 },
                 [&](const ended& x) { c.session.on(x, {}, out); },
             },
             m);
  run_session(i, out);
}

void world::run_session(std::size_t i, session_effects& out) {
  auto& c = clients_[i];
  for (auto& e : out) {
    std::visit(
        overloaded{
            [&](session_effect::accepted&) {
              if (c.finishes) throw broken("a client is accepted after its end");
            },
            [&](session_effect::deliver&) {
              if (c.finishes) throw broken("a delta comes after the end");
              if (std::exchange(c.outstanding, true)) throw broken("two deltas are outstanding");
            },
            [&](session_effect::finish&) {
              if (++c.finishes > 1) throw broken("a client gets two ends");
            },
            [&](session_effect::cancel_request& x) { up_of(i).emplace_back(x.message); },
            [&](session_effect::stalled&) { up_of(i).emplace_back(reader_stalled{id_of(i)}); },
            [&](session_effect::resumed&) { up_of(i).emplace_back(reader_resumed{id_of(i)}); },
            [&](session_effect::quit&) {
              if (c.state != life::alive) throw broken("a session quits twice");
              if (c.finishes != 1) throw broken("a session quits before its client got the end");
              c.state = life::quit;
              c.outstanding = c.withholds = false;
              if (!c.down.empty()) throw broken("a message follows a session's end");
            },
        },
        e);
  }
}

void world::perform(effects& out) {
  scheduled_ = true;
  const auto to_client = [this](request_id id, to_session m) {
    auto& c = clients_.at(index_of(id));
    if (c.state == life::alive) c.down.emplace_back(std::move(m));
  };
  for (auto& e : out) {
    std::visit(overloaded{
                   [&](admitted& x) {
                     if (++clients_.at(index_of(x.request)).admissions > 1)
                       throw broken("a request is admitted twice");
                     to_client(x.request, x);
                   },
                   [&](refused& x) { to_client(x.request, x); },
                   [&](tokens_out& x) {
                     auto& c = clients_.at(index_of(x.request));
                     if (c.ends) throw broken("a token comes after the end");
                     if (c.closed) throw broken("a token comes after the cancel");
                     if (x.token) c.tokens.push_back(x.token->token);
                     to_client(x.request, x);
                   },
                   [&](ended& x) {
                     auto& c = clients_.at(index_of(x.request));
                     if (++c.ends > 1) throw broken("a request ends twice");
                     if (x.completion_tokens != c.tokens.size())
                       throw broken("a counted token was not sent to the session");
                     to_client(x.request, x);
                   },
                   [&](reserve& x) {
                     if (owner(x.lease.request).closed)
                       throw broken("blocks are reserved for a request that is ending");
                     auto& counts = leases_[x.lease];
                     if (counts[2]) throw broken("blocks are reserved for a released lease");
                     counts[0] = 1;
                     to_allocator_.emplace_back(std::move(x));
                   },
                   [&](fork_lease& x) {
                     if (owner(x.child.request).closed)
                       throw broken("a lease is forked for a request that is ending");
                     const auto parent = leases_.find(x.parent);
                     if (parent == leases_.end() || parent->second[2])
                       throw broken("a released lease is forked");
                     auto& counts = leases_[x.child];
                     if (counts[0]) throw broken("a fork goes into a lease that was reserved");
                     counts[0] = 1;
                     to_allocator_.emplace_back(std::move(x));
                   },
                   [&](drop_source& x) { to_allocator_.emplace_back(x); },
                   [&](trim& x) {
                     const auto found = leases_.find(x.lease);
                     if (found == leases_.end() || found->second[2])
                       throw broken("a lease is trimmed that is not open");
                     to_allocator_.emplace_back(x);
                   },
                   [&](publish& x) { to_allocator_.emplace_back(std::move(x)); },
                   [&](release& x) {
                     const auto found = leases_.find(x.lease);
                     if (found == leases_.end())
                       throw broken("a lease is released that is not open");
                     if (++found->second[2] > 1) throw broken("a lease is released twice");
                     to_allocator_.emplace_back(x);
                   },
                   [&](audit& x) {
                     to_allocator_.emplace_back(x);
                     if (scene_->host_blocks > 0) to_mover_.emplace_back(std::move(x));
                   },
                   [&](move_out& x) {
                     if (owner(x.lease.request).closed)
                       throw broken("a move begins for a request that is ending");
                     to_mover_.emplace_back(std::move(x));
                     named_ = true;
                   },
                   [&](move_in& x) {
                     if (owner(x.parked.request).closed)
                       throw broken("a move begins for a request that is ending");
                     to_mover_.emplace_back(std::move(x));
                     named_ = true;
                   },
                   [&](drop_parked& x) { to_mover_.emplace_back(x); },
                   [&](step_plan& x) { accept(x); },
                   [&](preempted&) {},
                   [&](move_abandoned&) {},
                   [&](stopped&) {
                     if (++stops_ > 1) throw broken("stopped is reported twice");
                   },
                   [&](violation& x) { throw broken("violation: " + x.invariant); },
               },
               e);
  }
}

void world::accept(const step_plan& p) {
  if (plan_ || result_) throw broken("a step is planned while one is in flight");
  if (p.step.value != ++steps_) throw broken("step ids are not consecutive");
  if (p.items.empty()) throw broken("a plan is empty");
  for (const auto& item : p.items) {
    if (owner(item.request).closed || owner(item.request).ends)
      throw broken("a plan names a request that is ending");
    if (machine_.state_of(item.request) != request_state::prefilling_in_flight &&
        machine_.state_of(item.request) != request_state::decoding_in_flight)
      throw broken("a plan names a request that is not in flight");
    for (const auto& tail : item.tails)
      if (machine_.state_of(tail.request) != request_state::awaiting_fork)
        throw broken("a plan draws a token for a request that does not wait for it");
    if (item.blocks.size() / scene_->limits.groups() * scene_->limits.block_size <
        item.start + item.tokens.size())
      throw broken("a token lies beyond the blocks of its request");
  }
  plan_ = p;
  named_ = true;
}

}  // namespace troupe::core::sim
