#include "tests/sim/shells/words.hpp"

#include <span>

#include "actors/api/kv_audit.hpp"

namespace troupe::sim {
namespace {

using std::to_string;

std::string list(std::span<const core::block_id> blocks) {
  std::string out = "[";
  for (const auto b : blocks) out += (out.size() > 1 ? " " : "") + to_string(b);
  return out + "]";
}
std::string who(core::request_id id) {
  return "request " + to_string(id.value);
}
std::string what_lease(core::lease_id lease) {
  return "lease " + core::name_of(lease);
}

std::string words(const core::cancel& x) {
  return "cancel(" + who(x.request) + ", " + name_of(x.why) + ")";
}
std::string words(const core::reader_stalled& x) {
  return "reader_stalled(" + who(x.request) + ")";
}
std::string words(const core::reader_resumed& x) {
  return "reader_resumed(" + who(x.request) + ")";
}
std::string words(const core::admitted& x) {
  return "admitted(" + to_string(x.prompt_tokens) + " prompt tokens)";
}
std::string words(const core::refused& x) {
  return std::string("refused(") + name_of(x.why) + ")";
}
std::string words(const core::tokens_out& x) {
  return "tokens_out(" + (x.token ? "token " + to_string(x.token->token) : std::string("scores")) +
         ")";
}
std::string words(const core::ended& x) {
  return std::string("ended(") + name_of(x.why) + ", " + to_string(x.completion_tokens) +
         " tokens)";
}
std::string words(const core::reserve& x) {
  return "reserve(" + what_lease(x.lease) + ", " + to_string(x.count) + " blocks, " +
         to_string(x.keep_free) + " stay free)";
}
std::string words(const core::publish& x) {
  return "publish(" + what_lease(x.lease) + " from block " + to_string(x.first) + ", " +
         to_string(x.tokens.size()) + " tokens)";
}
std::string words(const core::release& x) {
  return "release(" + what_lease(x.lease) + ", " + name_of(x.why) +
         (x.preempted ? ", preempted)" : ")");
}
std::string words(const core::audit& x) {
  return "audit(" + to_string(x.live.size()) + " leases live)";
}
std::string words(const core::granted& x) {
  return "granted(" + what_lease(x.lease) + ", blocks " + list(x.blocks) + ", " +
         to_string(x.cached) + " cached)";
}
std::string words(const core::denied& x) {
  return "denied(" + what_lease(x.lease) + ")";
}
std::string words(const core::released& x) {
  return "released(" + what_lease(x.lease) + ", " + to_string(x.blocks) + " usable)";
}
std::string words(const core::step_plan& x) {
  std::string out = "step_plan(step " + to_string(x.step.value);
  for (const auto& item : x.items)
    out += "; " + who(item.request) + " " + to_string(item.start) + "+" +
           to_string(item.tokens.size()) + " in " + list(item.blocks) +
           (item.sample ? " sample" : "");
  return out + ")";
}
std::string words(const core::step_done& x) {
  std::string out = "step_done(step " + to_string(x.step.value);
  for (const auto& item : x.items)
    if (item.sampled) out += "; " + who(item.request) + " token " + to_string(item.sampled->token);
  return out + ")";
}
std::string words(const core::step_failed& x) {
  return "step_failed(step " + to_string(x.step.value) + ")";
}
std::string words(const core::move_out& x) {
  return "move_out(move " + to_string(x.move.value) + ", " + what_lease(x.lease) + ", blocks " +
         list(x.blocks) + " from " + to_string(x.first) + " of " + to_string(x.total) + ")";
}
std::string words(const core::move_in& x) {
  return "move_in(move " + to_string(x.move.value) + ", copy " + core::name_of(x.parked) +
         ", blocks " + list(x.blocks) + ")";
}
std::string words(const core::drop_parked& x) {
  return "drop_parked(copy " + core::name_of(x.parked) + ")";
}
std::string words(const core::moved& x) {
  return "moved(move " + to_string(x.move.value) + ", " + name_of(x.outcome) + ")";
}
std::string words(const core::drain&) {
  return "drain";
}
std::string words(const core::stop&) {
  return "stop";
}
std::string words(const protocol::begin&) {
  return "begin";
}
std::string words(const protocol::read_on&) {
  return "read_on";
}
std::string words(const protocol::delivered&) {
  return "delivered";
}
std::string words(const protocol::started&) {
  return "started";
}
std::string words(const protocol::kv_inquiry&) {
  return "kv_inquiry";
}
std::string words(const protocol::leaked& x) {
  return "leaked(" + to_string(x.blocks) + " blocks)";
}
std::string words(const protocol::scheduler_neighbours&) {
  return "neighbours";
}
std::string words(const caf::down_msg& x) {
  return "down(" + caf::to_string(x.reason) + ")";
}

template <class... Ts>
std::string first_match(const caf::type_erased_tuple& what) {
  std::string out = "?";
  const auto look = [&](auto* x) { return x && (out = words(*x), true); };
  (look(as<Ts>(what)) || ...);
  return out;
}

std::string route(const edge& on) {
  const auto session = "session " + to_string(on.session() + 1);
  switch (on.kind()) {
    case way::to_session:
      return "scheduler -> " + session;
    case way::from_session:
      return session + " -> scheduler";
    case way::client:
      return "client -> " + session;
    case way::to_allocator:
      return "scheduler -> allocator";
    case way::from_allocator:
      return "allocator -> scheduler";
    case way::to_executor:
      return "scheduler -> executor";
    case way::from_executor:
      return "executor -> scheduler";
    case way::to_mover:
      return "scheduler -> mover";
    case way::from_mover:
      return "mover -> scheduler";
    case way::from_runtime:
      return "runtime -> scheduler";
  }
  return "?";
}

}  // namespace

std::string words_of(const edge& on, const caf::type_erased_tuple& what) {
  if (const auto* x = as_submit(what))
    return route(on) + ": submit(" + who(x->request) + ", " + to_string(x->prompt.size()) +
           " prompt tokens)";
  return route(on) + ": " +
         first_match<core::cancel, core::reader_stalled, core::reader_resumed, core::admitted,
                     core::refused, core::tokens_out, core::ended, core::reserve, core::publish,
                     core::release, core::audit, core::granted, core::denied, core::released,
                     core::step_plan, core::step_done, core::step_failed, core::move_out,
                     core::move_in, core::drop_parked, core::moved, core::drain, core::stop,
                     protocol::begin, protocol::read_on, protocol::delivered, protocol::started,
                     protocol::kv_inquiry, protocol::leaked, protocol::scheduler_neighbours,
                     caf::down_msg>(what);
}

}  // namespace troupe::sim
