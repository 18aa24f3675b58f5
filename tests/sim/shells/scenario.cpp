#include "tests/sim/shells/scenario.hpp"

#include <stdexcept>

#include "tests/sim/shells/device.hpp"

namespace troupe::sim {
namespace {

constexpr faults per_client =
    bit(fault::left_silently) | bit(fault::left) | bit(fault::cancel) | bit(fault::crash);
constexpr faults engine_wide =
    bit(fault::step_fails) | bit(fault::drain) | bit(fault::stop) | bit(fault::unknown_cancel);
constexpr faults copies =
    bit(fault::copy_fails) | bit(fault::copy_corrupted) | bit(fault::copy_refused);

std::string text_of(token_id token, const gpu::tokenizer& vocabulary) {
  return vocabulary.bytes(token);
}

/// Computes the answer of the request alone, with the function that the device uses.
void answer_alone(client_request& ask, const gpu::tokenizer& vocabulary) {
  auto history = ask.prompt;
  ask.solo.clear();
  for (ask.solo_tokens = 0; ask.solo_tokens < ask.max_tokens;) {
    history.push_back(device::next_token(history, ask.seed));
    ++ask.solo_tokens;
    const auto piece = text_of(history.back(), vocabulary);
    if (!ask.stop.empty() && piece == ask.stop.front()) return;
    ask.solo += piece;
  }
}

client_request client(std::vector<token_id> prompt, std::uint32_t max_tokens,
                      const gpu::tokenizer& vocabulary) {
  client_request out;
  out.prompt = std::move(prompt);
  out.max_tokens = max_tokens;
  out.seed = 7;
  answer_alone(out, vocabulary);
  return out;
}

/// Stops by text at its `at`-th token, or before.
void stop_at(client_request& ask, std::size_t at, const gpu::tokenizer& vocabulary) {
  ask.stop = {ask.solo.substr(at, 1)};
  answer_alone(ask, vocabulary);
}

scenario base(const char* name, const char* what, std::uint32_t block_size, std::uint32_t blocks) {
  scenario out;
  out.name = name;
  out.what = what;
  out.limits.block_size = block_size;
  out.limits.num_blocks = blocks;
  out.limits.model_context = 64;
  out.limits.vocab = 256;
  out.limits.max_num_seqs = 8;
  out.limits.max_num_batched_tokens = 16;
  out.limits.stall_limit_us = 50'000;
  out.limits.move_limit_us = 50'000;
  out.limits.move_chunk_blocks = 1;
  return out;
}

std::vector<scenario> one(const gpu::tokenizer& vocabulary) {
  std::vector<scenario> out;
  auto plain = base("one", "one client, 2 tokens, its pool to itself", 4, 4);
  plain.clients = {client({40, 50, 60}, 2, vocabulary)};
  plain.allowed = per_client | engine_wide;
  out.push_back(plain);

  auto stop = base("one", "one client that stops by text at its second token of 4", 4, 4);
  stop.clients = {client({40, 50, 60}, 4, vocabulary)};
  stop_at(stop.clients[0], 1, vocabulary);
  stop.allowed = per_client | engine_wide;
  out.push_back(stop);

  auto chunks = base("one", "one client, a prompt of two chunks, 2 tokens, with deadlines", 2, 6);
  chunks.limits.max_num_batched_tokens = 2;
  chunks.clients = {client({41, 51, 61, 71}, 2, vocabulary)};
  chunks.clients[0].deadlines = {100, 200, 300};
  chunks.allowed =
      per_client | bit(fault::step_fails) | bit(fault::deadline) | bit(fault::time_passes);
  out.push_back(chunks);

  auto slow =
      base("one", "one client that stops reading, 5 tokens, an outbound limit of one byte", 4, 4);
  slow.outbound_bytes_max = 1;
  slow.clients = {client({40, 50, 60}, 5, vocabulary)};
  slow.allowed =
      bit(fault::reader_stops) | bit(fault::left) | bit(fault::crash) | bit(fault::time_passes);
  slow.fault_budget = 2;
  out.push_back(slow);
  for (auto& x : out) x.bound = x.fault_budget == 1 ? 3 : 2;
  return out;
}

std::vector<scenario> two(const gpu::tokenizer& vocabulary) {
  std::vector<scenario> out;
  auto shared = base("two", "two clients with a common prefix, room for both", 2, 16);
  shared.clients = {client({40, 41, 42, 43, 44}, 3, vocabulary),
                    client({40, 41, 42, 43, 45}, 2, vocabulary)};
  shared.allowed = per_client | engine_wide;
  out.push_back(shared);

  auto tight = base("two", "two clients that outgrow the pool: one is preempted", 2, 6);
  tight.clients = {client({40, 50}, 7, vocabulary), client({60, 70}, 7, vocabulary)};
  tight.allowed = per_client | bit(fault::step_fails) | bit(fault::stop);
  out.push_back(tight);

  auto seat = base("two", "two clients and one seat, one stops by text, one has deadlines", 4, 4);
  seat.limits.max_num_seqs = 1;
  seat.clients = {client({40, 50, 60}, 3, vocabulary), client({41, 51}, 2, vocabulary)};
  stop_at(seat.clients[0], 1, vocabulary);
  seat.clients[1].deadlines = {100, 200, 300};
  seat.allowed = per_client | bit(fault::deadline) | bit(fault::drain);
  out.push_back(seat);

  auto slow = base(
      "two", "two clients in a small pool, readers that stop, an outbound limit of one byte", 2, 5);
  slow.outbound_bytes_max = 1;
  slow.clients = {client({40, 50}, 5, vocabulary), client({60, 70}, 4, vocabulary)};
  slow.allowed = bit(fault::reader_stops) | bit(fault::left) | bit(fault::cancel) |
                 bit(fault::crash) | bit(fault::time_passes);
  out.push_back(slow);
  for (auto& x : out) x.fault_budget = 3, x.bound = 2;
  out[1].bound = 1;  // its runs are twice as long
  return out;
}

std::vector<scenario> many(const gpu::tokenizer& vocabulary) {
  auto crowd = base("many", "eight clients in a pool for two, all disturbances", 2, 9);
  crowd.limits.max_num_seqs = 4;
  crowd.limits.max_num_queued_reqs = 3;
  crowd.limits.max_num_batched_tokens = 6;
  crowd.outbound_bytes_max = 2;
  for (token_id i = 0; i < 8; ++i) {
    crowd.clients.push_back(
        client({40, 41, 42 + i / 2, 50 + i}, 3 + static_cast<std::uint32_t>(i) % 4, vocabulary));
    crowd.clients.back().priority = i == 5 ? -1 : 0;
  }
  stop_at(crowd.clients[2], 2, vocabulary);
  crowd.clients[4].deadlines = {100, 200, 300};
  crowd.allowed = per_client | engine_wide | bit(fault::deadline) | bit(fault::time_passes) |
                  bit(fault::reader_stops);
  crowd.fault_budget = 8;
  return {crowd};
}

std::vector<scenario> parking(const gpu::tokenizer& vocabulary) {
  std::vector<scenario> out;
  auto roomy = base("parking", "three clients that outgrow the pool, a host tier for all", 2, 7);
  roomy.clients = {client({40, 50, 60}, 8, vocabulary), client({41, 51}, 8, vocabulary),
                   client({42, 52, 62}, 6, vocabulary)};
  roomy.limits.park = true;
  roomy.host_slots = 16;
  roomy.outbound_bytes_max = 2;
  roomy.allowed = per_client | engine_wide | copies | bit(fault::time_passes) |
                  bit(fault::deadline) | bit(fault::reader_stops);
  roomy.fault_budget = 4;
  roomy.bound = 1;
  auto full = roomy;
  full.what = "three clients that outgrow the pool, a host tier for one";
  full.host_slots = 3;
  auto in_chunks = roomy;
  in_chunks.what = "three clients that outgrow the pool, copies of two blocks at a time";
  in_chunks.limits.move_chunk_blocks = 2;
  return {roomy, full, in_chunks};
}

}  // namespace

const char* name_of(fault f) {
  constexpr const char* names[] = {"the client leaves silently",
                                   "the client leaves",
                                   "cancel by id",
                                   "the session crashes",
                                   "the reader stops",
                                   "cancel of an unknown id",
                                   "the next step fails",
                                   "the oldest copy fails",
                                   "the oldest copy is corrupted",
                                   "the next copy is refused",
                                   "the next timer comes early",
                                   "ten seconds pass",
                                   "drain",
                                   "stop"};
  return names[static_cast<std::size_t>(f)];
}

std::vector<scenario> variants_of(const std::string& name, const gpu::tokenizer& vocabulary) {
  std::vector<scenario> out;
  if (name == "one")
    out = one(vocabulary);
  else if (name == "two")
    out = two(vocabulary);
  else if (name == "many")
    out = many(vocabulary);
  else if (name == "parking")
    out = parking(vocabulary);
  else
    throw std::invalid_argument("--scenario: '" + name + "' is none of one, two, many, parking");
  for (std::size_t i = 0; i < out.size(); ++i) out[i].variant = static_cast<std::uint32_t>(i);
  return out;
}

}  // namespace troupe::sim
