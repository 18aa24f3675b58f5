#include "tests/sim/shells/referee.hpp"

#include <algorithm>

#include "actors/api/kv_audit.hpp"
#include "tests/sim/shells/message_text.hpp"

namespace troupe::sim {
namespace {

std::string request_name(core::request_id id) {
  return "request " + std::to_string(id.value);
}

bool by_clock(core::end_reason why) {
  return why == core::end_reason::queue_timeout || why == core::end_reason::first_token_timeout ||
         why == core::end_reason::total_timeout || why == core::end_reason::slow_reader;
}

}  // namespace

referee::watched* referee::find(core::request_id id) {
  return id.value >= 1 && id.value <= requests_.size() ? &requests_[id.value - 1] : nullptr;
}

referee::lease_book* referee::book(core::lease_id lease) {
  const auto found = leases_.find(lease);
  return found == leases_.end() ? nullptr : &found->second;
}

// ---- a message is sent

void referee::sent(const edge& on, const caf::type_erased_tuple& what) {
  switch (on.kind()) {
    case edge_kind::to_session:
      return scheduler_to_session(on, what);
    case edge_kind::to_allocator:
      return scheduler_to_allocator(what);
    case edge_kind::from_allocator:
      return allocator_to_scheduler(what);
    case edge_kind::from_session:
      if (as<core::cancel>(what)) requests_[on.session()].cancel_sent = true;
      if (as<core::reader_stalled>(what)) requests_[on.session()].stalled = true;
      if (as<core::reader_resumed>(what)) requests_[on.session()].stalled = false;
      return;
    case edge_kind::to_executor:
      if (const auto* plan = as<core::step_plan>(what)) planned(*plan);
      return;
    case edge_kind::to_mover:
      if (const auto* out = as<core::move_out>(what))
        move_begun(out->move, out->lease.request, out->lease, out->blocks);
      if (const auto* in = as<core::move_in>(what))
        move_begun(in->move, in->parked.request, in->parked, in->blocks);
      if (const auto* drop = as<core::drop_parked>(what))
        for (const auto& move : moves_)
          if (move.copy == drop->parked)
            complain("the copy of " + request_name(drop->parked.request) +
                     " was dropped while it moves");
      return;
    default:
      return;
  }
}

void referee::scheduler_to_session(const edge& on, const caf::type_erased_tuple& what) {
  auto& request = requests_[on.session()];
  const auto name = "request " + std::to_string(on.session() + 1);
  if (request.terminal && !as<caf::down_msg>(what))
    return complain("the scheduler sent " + name + " a message after its end");
  if (as<core::admitted>(what)) {
    if (std::exchange(request.admitted, true)) complain(name + " was admitted twice");
  } else if (as<core::refused>(what)) {
    if (request.admitted) complain(name + " was refused after it was admitted");
    request.terminal = true;
  } else if (as<protocol::started>(what)) {
    if (!request.admitted || std::exchange(request.started, true))
      complain(name + " was started twice, or before it was admitted");
  } else if (as<core::tokens_out>(what)) {
    if (!request.started) complain(name + " got a token before it was started");
    if (request.closed) complain(name + " got a token after the scheduler knew of its end");
  } else if (const auto* end = as<core::ended>(what)) {
    ended(*end);
  }
}

void referee::ended(const core::ended& x) {
  auto& request = *find(x.request);
  if (!request.admitted) complain(request_name(x.request) + " ended without having been admitted");
  request.terminal = true;
  if (request.closed && x.why != *request.closed && !(time_moved_ && by_clock(x.why)))
    complain(request_name(x.request) + " ended for " + name_of(x.why) + ", the first reason was " +
             name_of(*request.closed));
  if (x.why == core::end_reason::step_failed &&
      std::find(failed_.begin(), failed_.end(), x.request) == failed_.end())
    complain(request_name(x.request) + " ended for a step that did not name it");
}

void referee::scheduler_to_allocator(const caf::type_erased_tuple& what) {
  if (const auto* ask = as<core::reserve>(what)) {
    auto* request = find(ask->lease.request);
    if (!request || !request->admitted || request->terminal || request->closed)
      return complain("blocks were reserved for " + request_name(ask->lease.request) +
                      ", which has ended");
    auto& lease = leases_[ask->lease];
    if (lease.released || lease.denied)
      complain("lease " + core::name_of(ask->lease) + " was reserved after its end");
    request->lease = ask->lease;
  } else if (const auto* back = as<core::release>(what)) {
    released(*back);
  }
}

void referee::released(const core::release& x) {
  auto* lease = book(x.lease);
  const auto name = core::name_of(x.lease);
  if (!lease) return complain("lease " + name + " was released without having been reserved");
  if (std::exchange(lease->released, true)) complain("lease " + name + " was released twice");
  for (const auto& part : parts_)
    if (part.lease == x.lease) complain("lease " + name + " was released while a step names it");
  for (const auto& move : moves_)
    if (move.lease == x.lease) complain("lease " + name + " was released while a move names it");
}

void referee::allocator_to_scheduler(const caf::type_erased_tuple& what) {
  if (const auto* no = as<core::denied>(what)) {
    if (auto* lease = book(no->lease); lease && !lease->granted) lease->denied = true;
    return;
  }
  if (as<core::released>(what)) ++answers_;
  const auto* given = as<core::granted>(what);
  if (!given) return;
  auto* lease = book(given->lease);
  if (!lease)
    return complain("lease " + core::name_of(given->lease) +
                    " was granted without having been reserved");
  lease->granted = true;
  for (std::size_t i = 0; i < given->blocks.size(); ++i) {
    const auto block = given->blocks[i];
    if (block >= holders_.size()) return complain("a block was granted that does not exist");
    auto& holders = holders_[block];
    if (i >= given->cached && !holders.empty())
      complain("block " + std::to_string(block) + " was granted to " + core::name_of(given->lease) +
               " and is held by " + core::name_of(holders.front()));
    holders.push_back(given->lease);
    lease->blocks.push_back(block);
  }
}

void referee::planned(const core::step_plan& plan) {
  if (step_)
    complain("step " + std::to_string(plan.step.value) + " was planned while a step is in flight");
  if (plan.step.value != ++steps_) complain("step ids are not consecutive");
  if (plan.items.empty()) complain("an empty step was planned");
  step_ = plan;
  parts_.clear();
  for (const auto& item : plan.items) {
    const auto* request = find(item.request);
    if (!request || !request->admitted || request->terminal || request->closed)
      complain(request_name(item.request) + " was planned after its end");
    else
      parts_.push_back({item.request, request->lease});
  }
}

void referee::move_begun(core::move_id id, core::request_id request, core::lease_id copy,
                         const std::vector<core::block_id>& blocks) {
  const auto* of = find(request);
  if (!of || of->terminal || of->closed)
    return complain(request_name(request) + " was moved after its end");
  moves_.push_back({id, of->lease, copy, blocks});
}

// ---- a message is about to be handled

void referee::handling(const edge& on, const caf::type_erased_tuple& what) {
  if (on.kind() == edge_kind::from_session) {
    if (const auto* submit = as_submit(what)) requests_[submit->request.value - 1].submitted = true;
    if (const auto* cancel = as<core::cancel>(what)) close_for(cancel->request, cancel->why);
    if (as<caf::down_msg>(what))
      close_for(core::request_id{on.session() + 1}, core::end_reason::session_crash);
  } else if (on.kind() == edge_kind::from_runtime) {
    if (const auto* stop = as<core::stop>(what))
      for (std::size_t i = 0; i < requests_.size(); ++i)
        close_for(core::request_id{i + 1}, stop->why);
  } else if (on.kind() == edge_kind::to_allocator) {
    if (const auto* back = as<core::release>(what)) give_back(back->lease);
  } else if (on.kind() == edge_kind::to_executor) {
    if (const auto* plan = as<core::step_plan>(what)) computed(*plan);
  } else if (on.kind() == edge_kind::from_executor) {
    failed_.clear();
    if (as<core::step_failed>(what))
      for (const auto& part : parts_) failed_.push_back(part.request);
    step_.reset();
    parts_.clear();
  } else if (on.kind() == edge_kind::from_mover) {
    if (const auto* over = as<core::moved>(what))
      std::erase_if(moves_, [&](const auto& move) { return move.id == over->move; });
  }
}

void referee::close_for(core::request_id request, core::end_reason why) {
  auto* of = find(request);
  if (of && of->submitted && !of->terminal && !of->closed) of->closed = why;
}

void referee::give_back(core::lease_id lease) {
  ++releases_;
  auto* of = book(lease);
  if (!of) return;
  for (const auto block : std::exchange(of->blocks, {})) std::erase(holders_[block], lease);
}

// A step reads and writes its blocks while the executor handles the plan, so ownership is checked
// at that moment.
void referee::computed(const core::step_plan& plan) {
  const auto block_size = of_.limits.block_size;
  for (std::size_t i = 0; i < plan.items.size() && i < parts_.size(); ++i) {
    const auto& item = plan.items[i];
    const auto name = core::name_of(parts_[i].lease);
    if (item.blocks.size() * block_size < item.start + item.tokens.size())
      return complain("lease " + name + " is planned beyond its blocks");
    for (std::size_t b = 0; b < item.blocks.size(); ++b) {
      const auto& holders = holders_[item.blocks[b]];
      if (std::find(holders.begin(), holders.end(), parts_[i].lease) == holders.end())
        complain("a step of lease " + name + " reads block " + std::to_string(item.blocks[b]) +
                 ", which it does not hold");
      if ((b + 1) * block_size > item.start && b * block_size < item.start + item.tokens.size() &&
          holders.size() > 1)
        complain("a step of lease " + name + " writes block " + std::to_string(item.blocks[b]) +
                 ", which others hold too");
    }
  }
}

void referee::copy_ends() {
  for (const auto& move : moves_)
    for (const auto block : move.blocks) {
      const auto& holders = holders_[block];
      if (std::find(holders.begin(), holders.end(), move.lease) == holders.end())
        complain("a copy touches block " + std::to_string(block) + ", which lease " +
                 core::name_of(move.lease) + " does not hold");
    }
}

void referee::handled() {
  std::uint64_t leased = 0;
  for (const auto& holders : holders_) leased += holders.empty() ? 0 : 1;
  if (pool_.used != leased)
    complain("the allocator counts " + std::to_string(pool_.used) +
             " leased blocks, the grants sum up to " + std::to_string(leased));
  if (pool_.used + pool_.cached + pool_.quarantined > pool_.total)
    complain("the allocator counts more blocks than the pool has");
}

bool referee::serves_requests() const {
  return std::any_of(requests_.begin(), requests_.end(),
                     [](const auto& x) { return x.admitted && !x.terminal; });
}

// ---- the end

void referee::at_rest() {
  if (step_) complain("a step never ended");
  if (!moves_.empty()) complain("a move never ended");
  for (std::size_t i = 0; i < requests_.size(); ++i)
    if (requests_[i].submitted && !requests_[i].terminal)
      complain("request " + std::to_string(i + 1) + " was never ended by the scheduler");
  for (const auto& [lease, of] : leases_) {
    if (!of.released && !of.denied)
      complain("lease " + core::name_of(lease) + " was never released");
    if (!of.blocks.empty()) complain("lease " + core::name_of(lease) + " still holds blocks");
  }
  if (releases_ != answers_) complain("a release was not answered");
  if (pool_.used != 0) complain(std::to_string(pool_.used) + " blocks are leased at rest");
  if (pool_.quarantined != 0)
    complain(std::to_string(pool_.quarantined) + " blocks were quarantined");
  if (released_ != pool_.allocated_total)
    complain(std::to_string(pool_.allocated_total) + " blocks were allocated and " +
             std::to_string(released_) + " released");
  if (host_.used != 0)
    complain(std::to_string(host_.used) + " places of the host tier are used at rest");
}

void referee::on_end(const core::request_record& record) {
  auto* of = find(record.id);
  if (!of) return complain("an end of an unknown request was recorded");
  if (++of->recorded > 1) complain(request_name(record.id) + " was recorded as ended twice");
}

void referee::on_release_latency(double seconds) {
  if (seconds < 0.0) complain("a release came before its cause");
}

}  // namespace troupe::sim
