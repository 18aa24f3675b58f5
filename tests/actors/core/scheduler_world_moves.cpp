// The fake mover of the world: parked copies are vectors of tokens.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/actors/core/scheduler_world.hpp"

namespace troupe::core::testing {

namespace {

void must(bool ok, const char* rule) {
  if (!ok) FAIL(rule);
}

}  // namespace

std::uint32_t scheduler_world::host_used() const {
  std::size_t n = 0;
  for (const auto& [lease, copy] : host) n += copy.size();
  return static_cast<std::uint32_t>(n);
}

// Room is taken with the first chunk; a cell of -2 is not there yet.
move_outcome scheduler_world::copy_out(const move_out& m) {
  const auto bs = limits_.block_size;
  if (m.first == 0) {
    must(!host.contains(m.lease), "a lease is parked once");
    if (host_used() + m.total > host_blocks) return move_outcome::host_full;
    host[m.lease].assign(m.total, std::vector<token_id>(bs, -2));
  }
  auto& copy = host.at(m.lease);
  for (std::size_t i = 0; i < m.blocks.size(); ++i)
    copy.at(m.first + i)
        .assign(memory_.begin() + m.blocks[i] * bs, memory_.begin() + (m.blocks[i] + 1) * bs);
  return move_outcome::ok;
}

void scheduler_world::copy_in(const move_in& m) {
  const auto bs = limits_.block_size;
  const auto& copy = host.at(m.parked);
  for (std::size_t i = 0; i < m.blocks.size(); ++i) {
    must(std::none_of(copy.at(m.first + i).begin(), copy.at(m.first + i).end(),
                      [](token_id t) { return t == -2; }),
         "what comes back had gone out");
    std::copy(copy.at(m.first + i).begin(), copy.at(m.first + i).end(),
              memory_.begin() + m.blocks[i] * bs);
  }
}

bool scheduler_world::move_one(move_outcome wanted) {
  if (to_mover_.empty() || mover_stuck) return false;
  const auto m = to_mover_.front();
  to_mover_.pop_front();
  moved answer;
  if (const auto* o = std::get_if<move_out>(&m)) {
    answer = {o->move, wanted == move_outcome::ok ? copy_out(*o) : wanted};
    if (answer.outcome != move_outcome::ok) host.erase(o->lease);
  } else if (const auto* i = std::get_if<move_in>(&m)) {
    answer = {i->move, wanted};
    if (wanted == move_outcome::ok) copy_in(*i);
    if (wanted == move_outcome::ok) ++returns;
  } else if (const auto* d = std::get_if<drop_parked>(&m)) {
    host.erase(d->parked);
    return true;
  } else {
    const auto& parked = std::get<audit>(m).parked;
    for (const auto& [lease, copy] : host)
      must(std::binary_search(parked.begin(), parked.end(), lease),
           "the host tier keeps nothing for nobody");
    return true;
  }
  failed_moves += answer.outcome != move_outcome::ok ? 1 : 0;
  send(answer);
  return true;
}

bool scheduler_world::answer_one() {
  if (from_allocator_.empty()) return false;
  const auto m = from_allocator_.front();
  from_allocator_.pop_front();
  std::visit([&](const auto& event) { send(event); }, m);
  return true;
}

}  // namespace troupe::core::testing
