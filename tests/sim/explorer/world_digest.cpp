// Which parts of a world make two states different (README.md, "What makes two states one"), and
// names of choices, events and faults.
#include <array>

#include "tests/sim/explorer/world.hpp"

namespace troupe::core::sim {

state_digest world::digest() const {
  state_hash h(now_);
  machine_.add_to(h);
  ledger_.add_to(h);
  if (scene_->host_blocks > 0) moves_.add_to(h);
  for (const auto& c : clients_) {
    h.add(c.state)
        .add(c.outstanding)
        .add(c.withholds)
        .add(c.resubmitted)
        .add(c.up.size())
        .add(c.down.size());
    c.reading.add_to(h);
    if (c.reading.where() == prompt_reading::state::tokenizing) h.add(c.slices);
    if (c.state == life::alive) c.session.add_to(h);
    for (const auto& m : c.up) {
      h.add(m.index());
      if (const auto* x = std::get_if<submit>(&m); x && x->deadlines.total > 0)
        h.add(now_ - x->received_at.value_or(now_));
      std::visit([&h](const auto& x) { h.add(x.request); }, m);
      if (const auto* x = std::get_if<cancel>(&m)) h.add(x->why);
    }
    for (const auto& m : c.down) {
      h.add(m.index());
      if (const auto* x = std::get_if<tokens_out>(&m))
        h.add(x->token ? x->token->token : -1).add(x->cached_tokens);
      if (const auto* x = std::get_if<ended>(&m))
        h.add(x->why).add(x->completion_tokens).add(x->cached_tokens);
      if (const auto* x = std::get_if<refused>(&m)) h.add(x->why);
    }
  }
  h.add(to_allocator_.size())
      .add(from_allocator_.size())
      .add(to_mover_.size())
      .add(from_mover_.size());
  for (const auto& m : to_allocator_) {
    h.add(m.index());
    std::visit(overloaded{
                   [&](const reserve& x) {
                     h.add(x.lease).add(x.count).add(x.keep_free).add(x.prefix.has_value());
                     if (x.prefix) h.add_all(x.prefix->tokens);
                   },
                   [&](const fork_lease& x) {
                     h.add(x.parent).add(x.child).add(x.shared).add(x.copies).add(x.keep_free);
                   },
                   [&](const drop_source& x) { h.add(x.lease); },
                   [&](const trim& x) { h.add(x.lease).add(x.group).add(x.rows); },
                   [&](const publish& x) { h.add(x.lease).add(x.first).add(x.tokens); },
                   [&](const release& x) { h.add(x.lease).add(x.forget); },
                   [&](const audit& x) { h.add(x.live).add(x.parked); },
               },
               m);
  }
  for (const auto& m : from_allocator_) {
    h.add(m.index());
    std::visit(overloaded{
                   [&](const granted& x) {
                     h.add(x.lease).add_blocks(x.blocks).add(x.cached).add_blocks(x.sources);
                   },
                   [&](const denied& x) { h.add(x.lease); },
                   [&](const released& x) { h.add(x.lease).add(x.blocks > 0).add(x.goes_on); },
               },
               m);
  }
  for (const auto& m : to_mover_) {
    h.add(m.index());
    std::visit(overloaded{
                   [&](const move_out& x) {
                     h.add(x.move).add(x.lease).add(x.first).add(x.total).add_blocks(x.blocks);
                   },
                   [&](const move_in& x) {
                     h.add(x.move).add(x.parked).add(x.first).add_blocks(x.blocks);
                   },
                   [&](const drop_parked& x) { h.add(x.parked); },
                   [&](const audit& x) { h.add(x.live).add(x.parked); },
               },
               m);
  }
  for (const auto& m : from_mover_) h.add(m.move).add(m.outcome);
  for (const auto& c : copies_)
    h.add(c.move).add(c.out).add_blocks(c.blocks).add(c.parked).add(c.first);
  h.add(plan_.has_value()).add(result_.has_value());
  if (plan_)
    for (const auto& x : plan_->items) {
      h.add(x.request).add(x.start).add(x.tokens).add_blocks(x.blocks).add_blocks(x.copy_from);
      for (const auto& tail : x.tails) h.add(tail.request);
    }
  if (result_) {
    h.add(result_->index());
    if (const auto* d = std::get_if<step_done>(&*result_))
      for (const auto& x : d->items) {
        h.add(x.request).add(x.bad_logits).add(x.sampled ? x.sampled->token : -1);
        for (const auto& tail : x.tails) h.add(tail.request).add(tail.sampled.token);
      }
  }
  return h.add(faults_met_).add(stops_).add(ending_).digest();
}

std::string text_of(const choice& c) {
  static constexpr std::array<const char*, 14> names{
      "submit",         "turn",      "to_scheduler", "to_session", "to_allocator",
      "from_allocator", "to_mover",  "copy_done",    "from_mover", "step",
      "from_executor",  "delivered", "resume",       "fault"};
  const bool faulty = c.what == choice::kind::fault;
  return std::string(faulty ? name_of(c.which) : names.at(static_cast<std::size_t>(c.what))) + ":" +
         std::to_string(c.who);
}

const char* name_of(column c) {
  static constexpr std::array<const char*, column_count> names{
      "submit",      "granted",        "denied",         "released",    "moved",
      "move_failed", "move_late",      "step_done",      "step_failed", "cancel",
      "deadline",    "reader_stalled", "reader_resumed", "drain",       "stop"};
  return names.at(static_cast<std::size_t>(c));
}

const char* name_of(fault f) {
  static constexpr std::array<const char*, fault_count> names{
      "disconnect",  "cancel",  "time_passes", "stall", "step_failed", "bad_logits",
      "move_failed", "corrupt", "crash",       "drain", "stop",        "repeat"};
  return names.at(static_cast<std::size_t>(f));
}

}  // namespace troupe::core::sim
