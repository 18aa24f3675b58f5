#include "tests/sim/shells/message_text.hpp"

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
std::string request_name(core::request_id id) {
  return "request " + to_string(id.value);
}
std::string lease_name(core::lease_id lease) {
  return "lease " + core::name_of(lease);
}

std::string text_of(const core::cancel& x) {
  return "cancel(" + request_name(x.request) + ", " + name_of(x.why) + ")";
}
std::string text_of(const core::reader_stalled& x) {
  return "reader_stalled(" + request_name(x.request) + ")";
}
std::string text_of(const core::reader_resumed& x) {
  return "reader_resumed(" + request_name(x.request) + ")";
}
std::string text_of(const core::admitted& x) {
  return "admitted(" + to_string(x.prompt_tokens) + " prompt tokens)";
}
std::string text_of(const core::refused& x) {
  return std::string("refused(") + name_of(x.why) + ")";
}
std::string text_of(const core::tokens_out& x) {
  return "tokens_out(" + (x.token ? "token " + to_string(x.token->token) : std::string("scores")) +
         ")";
}
std::string text_of(const core::ended& x) {
  return std::string("ended(") + name_of(x.why) + ", " + to_string(x.completion_tokens) +
         " tokens)";
}
std::string text_of(const core::reserve& x) {
  return "reserve(" + lease_name(x.lease) + ", " + to_string(x.count) + " blocks, " +
         to_string(x.keep_free) + " stay free)";
}
std::string text_of(const core::publish& x) {
  return "publish(" + lease_name(x.lease) + " from block " + to_string(x.first) + ", " +
         to_string(x.tokens.size()) + " tokens)";
}
std::string text_of(const core::release& x) {
  return "release(" + lease_name(x.lease) + ", " + name_of(x.why) +
         (x.preempted ? ", preempted)" : ")");
}
std::string text_of(const core::audit& x) {
  return "audit(" + to_string(x.live.size()) + " leases live)";
}
std::string text_of(const core::granted& x) {
  return "granted(" + lease_name(x.lease) + ", blocks " + list(x.blocks) + ", " +
         to_string(x.cached) + " cached)";
}
std::string text_of(const core::denied& x) {
  return "denied(" + lease_name(x.lease) + ")";
}
std::string text_of(const core::released& x) {
  return "released(" + lease_name(x.lease) + ", " + to_string(x.blocks) + " usable)";
}
std::string text_of(const core::step_plan& x) {
  std::string out = "step_plan(step " + to_string(x.step.value);
  for (const auto& item : x.items)
    out += "; " + request_name(item.request) + " " + to_string(item.start) + "+" +
           to_string(item.tokens.size()) + " in " + list(item.blocks) +
           (item.sample ? " sample" : "");
  return out + ")";
}
std::string text_of(const core::step_done& x) {
  std::string out = "step_done(step " + to_string(x.step.value);
  for (const auto& item : x.items)
    if (item.sampled)
      out += "; " + request_name(item.request) + " token " + to_string(item.sampled->token);
  return out + ")";
}
std::string text_of(const core::step_failed& x) {
  return "step_failed(step " + to_string(x.step.value) + ")";
}
std::string text_of(const core::move_out& x) {
  return "move_out(move " + to_string(x.move.value) + ", " + lease_name(x.lease) + ", blocks " +
         list(x.blocks) + " from " + to_string(x.first) + " of " + to_string(x.total) + ")";
}
std::string text_of(const core::move_in& x) {
  return "move_in(move " + to_string(x.move.value) + ", copy " + core::name_of(x.parked) +
         ", blocks " + list(x.blocks) + ")";
}
std::string text_of(const core::drop_parked& x) {
  return "drop_parked(copy " + core::name_of(x.parked) + ")";
}
std::string text_of(const core::moved& x) {
  return "moved(move " + to_string(x.move.value) + ", " + name_of(x.outcome) + ")";
}
std::string text_of(const core::drain&) {
  return "drain";
}
std::string text_of(const core::stop&) {
  return "stop";
}
std::string text_of(const protocol::begin&) {
  return "begin";
}
std::string text_of(const protocol::read_on&) {
  return "read_on";
}
std::string text_of(const protocol::delivered&) {
  return "delivered";
}
std::string text_of(const protocol::started&) {
  return "started";
}
std::string text_of(const protocol::kv_inquiry&) {
  return "kv_inquiry";
}
std::string text_of(const protocol::leaked& x) {
  return "leaked(" + to_string(x.blocks) + " blocks)";
}
std::string text_of(const protocol::scheduler_neighbours&) {
  return "neighbours";
}
std::string text_of(const caf::down_msg& x) {
  return "down(" + caf::to_string(x.reason) + ")";
}

template <class... Ts>
std::string first_match(const caf::type_erased_tuple& what) {
  std::string out = "?";
  const auto match = [&](auto* x) { return x && (out = text_of(*x), true); };
  (match(as<Ts>(what)) || ...);
  return out;
}

std::string route(const edge& on) {
  const auto session = "session " + to_string(on.session() + 1);
  switch (on.kind()) {
    case edge_kind::to_session:
      return "scheduler -> " + session;
    case edge_kind::from_session:
      return session + " -> scheduler";
    case edge_kind::client:
      return "client -> " + session;
    case edge_kind::to_allocator:
      return "scheduler -> allocator";
    case edge_kind::from_allocator:
      return "allocator -> scheduler";
    case edge_kind::to_executor:
      return "scheduler -> executor";
    case edge_kind::from_executor:
      return "executor -> scheduler";
    case edge_kind::to_mover:
      return "scheduler -> mover";
    case edge_kind::from_mover:
      return "mover -> scheduler";
    case edge_kind::from_runtime:
      return "runtime -> scheduler";
  }
  return "?";
}

}  // namespace

std::string message_text(const edge& on, const caf::type_erased_tuple& what) {
  if (const auto* x = as_submit(what))
    return route(on) + ": submit(" + request_name(x->request) + ", " + to_string(x->prompt.size()) +
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
