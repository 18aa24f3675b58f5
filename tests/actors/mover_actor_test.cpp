// The mover on real threads: copies that are held, fail, rot or outlive it; the test plays the
// scheduler.
#include "actors/mover_actor.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "gpu/make_backend.hpp"
#include "tests/actors/mover_world.hpp"
#include "tests/support/fake_backend.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe;
using core::move_outcome;
using test::lease;
using test::mover_world;

namespace {

std::shared_ptr<test::fake_backend> fake(std::uint32_t blocks = 32) {
  return std::make_shared<test::fake_backend>(16, blocks, 36, 125);
}

/// Writes tokens into blocks by a step, or reads what the device makes of them.
token_id step(gpu::backend& device, std::vector<token_id> tokens, std::uint32_t start,
              std::vector<std::uint32_t> blocks) {
  gpu::step_batch batch;
  auto& slice = batch.slices.emplace_back();
  slice.start = start;
  slice.tokens = std::move(tokens);
  slice.blocks = std::move(blocks);
  slice.sample = true;
  const auto planned = device.plan(std::move(batch));
  return device.run(*planned).slices.at(0).sampled.value().token;
}

std::vector<token_id> counting(std::uint32_t count, token_id first = 40) {
  std::vector<token_id> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<std::byte> pattern(std::size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>((i * 2654435761u + seed) >> 13);
  return bytes;
}

/// Copies one block between device and `bytes`, past the mover.
void copy_block(gpu::backend& device, gpu::block_copy::direction towards, std::uint32_t block,
                std::vector<std::byte>& bytes) {
  std::atomic<int> done{0};
  device.copy({towards, {block}, {std::span(bytes)}}, [&](bool ok) {
    done = ok ? 1 : 2;
    done.notify_one();
  });
  done.wait(0);
  REQUIRE(done == 1);
}

#ifdef __SANITIZE_ADDRESS__
constexpr bool violations_abort = true;  // TROUPE_ABORT_ON_VIOLATION
#else
constexpr bool violations_abort = false;
#endif

}  // namespace

TEST_CASE(
    "mover: blocks go out in chunks and come back into other blocks, byte for byte, on the cpu "
    "device",
    "[actor]") {
  const test::temporary_file file(test::tiny_llama_bytes());
  mover_world w(gpu::make_backend(gpu::load_model(file.path()), {.num_blocks = 12}), 8);
  using direction = gpu::block_copy::direction;
  const auto bytes = w.device->info().kv.block_bytes(0);
  for (std::uint32_t i = 0; i < 5; ++i) {
    auto content = pattern(bytes, i);
    copy_block(*w.device, direction::to_device, i, content);
  }
  CHECK(w.out(lease(1), 0, 5, {4, 2}) == move_outcome::ok);
  CHECK(w.out(lease(1), 2, 5, {0, 1, 3}) == move_outcome::ok);
  CHECK(w.watcher.tier().used == 5);
  std::vector<std::byte> other(bytes, std::byte{0x5a});
  for (std::uint32_t i = 0; i < 12; ++i) copy_block(*w.device, direction::to_device, i, other);

  CHECK(w.in(lease(1), 0, {11, 0, 7}) == move_outcome::ok);
  CHECK(w.in(lease(1), 3, {6, 9}) == move_outcome::ok);
  const std::vector<std::pair<std::uint32_t, unsigned>> places{
      {11, 4}, {0, 2}, {7, 0}, {6, 1}, {9, 3}};
  std::vector<std::byte> back(bytes);
  for (const auto& [block, seed] : places) {
    copy_block(*w.device, direction::to_host, block, back);
    CHECK(back == pattern(bytes, seed));
  }
  copy_block(*w.device, direction::to_host, 5, back);
  CHECK(back == other);

  // One flipped bit in the third slot of the copy: what is before it comes back, what holds it does
  // not.
  std::uint32_t slot = 0;
  while (!std::ranges::equal(w.host->slot(slot), pattern(bytes, 0))) ++slot;
  w.host->slot(slot)[bytes / 2] ^= std::byte{16};
  for (const auto block : {1u, 2u, 3u}) copy_block(*w.device, direction::to_device, block, other);
  CHECK(w.in(lease(1), 0, {4, 5}) == move_outcome::ok);
  CHECK(w.in(lease(1), 1, {1, 2, 3}) == move_outcome::corrupt);
  for (const auto block : {1u, 2u, 3u}) {
    copy_block(*w.device, direction::to_host, block, back);
    CHECK(back == other);  // no byte reached the device
  }
  w.send(core::drop_parked{lease(1)});
  w.flush();
  CHECK(w.watcher.tier().used == 0);
  const auto moves = w.watcher.moves();
  REQUIRE(moves.size() == 7);
  CHECK((moves[0].out && moves[0].blocks == 2 && moves[0].outcome == move_outcome::ok));
  CHECK((!moves[5].out && moves[5].blocks == 3 && moves[5].outcome == move_outcome::corrupt));
  CHECK(moves[1].elapsed_us > 0);
  CHECK(w.watcher.violations().empty());
}

TEST_CASE(
    "mover: blocks of a copy in flight are read and written until it is reported over, not after "
    "(C151)",
    "[actor]") {
  const auto device = fake();
  mover_world w(device, 8);
  const auto first = step(*device, counting(32), 0, {3, 4});
  device->hold_copies();
  w.start_out(lease(1), 0, 2, {3, 4});
  REQUIRE(device->wait_copies_started(1));
  CHECK(w.silent(std::chrono::milliseconds(20)));
  CHECK(w.watcher.tier().used == 2);
  // Meanwhile the tier has no more than the rest to give.
  CHECK(w.out(lease(2), 0, 7, {0}) == move_outcome::host_full);
  device->let_copies_go();
  CHECK(w.answer().outcome == move_outcome::ok);

  device->hold_copies();
  w.start_in(lease(1), 0, {9, 8});
  REQUIRE(device->wait_copies_started(2));
  CHECK(w.silent(std::chrono::milliseconds(20)));
  device->let_copies_go();
  CHECK(w.matching(w.answer()) == move_outcome::ok);
  // After the answer the blocks are the next owner's: nothing of the copy comes late.
  const auto other = step(*device, counting(32, 70), 0, {9, 8});
  CHECK(other == device->next_token(counting(32, 70), 0));
  CHECK(w.in(lease(1), 0, {20, 21}) == move_outcome::ok);
  CHECK(step(*device, {40 + 31}, 31, {20, 21}) == first);
  CHECK(w.watcher.violations().empty());
}

TEST_CASE("mover: what the device fails or refuses is reported, and its room is free again",
          "[actor]") {
  const auto device = fake();
  mover_world w(device, 4);
  device->fail_copies = 1;
  CHECK(w.out(lease(1), 0, 4, {0, 1}) == move_outcome::failed);
  CHECK(w.watcher.tier().used == 0);
  device->refuse_next_copy = true;
  CHECK(w.out(lease(2), 0, 4, {0, 1}) == move_outcome::failed);
  CHECK(w.watcher.tier().used == 0);
  CHECK(w.out(lease(3), 0, 4, {0, 99}) == move_outcome::failed);  // no such block
  CHECK(w.out(lease(4), 0, 4, {0, 1, 2, 3}) == move_outcome::ok);
  device->fail_copies = 1;
  CHECK(w.in(lease(4), 0, {5, 6}) == move_outcome::failed);
  CHECK(w.in(lease(4), 0, {5, 6}) == move_outcome::ok);  // the copy has stayed
  device->refuse_next_copy = true;
  CHECK(w.in(lease(4), 0, {5, 6}) == move_outcome::failed);
  CHECK(w.watcher.tier().used == 4);
  CHECK(w.watcher.violations().empty());
}

TEST_CASE("mover: what changes on the host tier never comes back", "[actor]") {
  const auto device = fake();
  mover_world w(device, 4);
  device->corrupt_copies = 1;
  CHECK(w.out(lease(1), 0, 2, {0, 1}) == move_outcome::ok);
  CHECK(w.out(lease(2), 0, 2, {0, 1}) == move_outcome::ok);
  REQUIRE(device->wait_copies_ended(2));
  const auto started = device->copies_started();
  CHECK(w.in(lease(1), 0, {2, 3}) == move_outcome::corrupt);
  CHECK(device->copies_started() == started);
  CHECK(w.in(lease(2), 0, {2, 3}) == move_outcome::ok);
}

TEST_CASE("mover: a completion that comes late or twice frees nothing and is answered once (C154)",
          "[actor]") {
  const auto device = fake();
  mover_world w(device, 4);
  CHECK(w.out(lease(1), 0, 2, {0, 1}) == move_outcome::ok);
  const core::move_id store{w.last};
  w.send(core::moved{store, move_outcome::failed});  // would free the copy, if it were believed
  CHECK(w.in(lease(1), 0, {2, 3}) == move_outcome::ok);
  const core::move_id load{w.last};
  w.send(core::drop_parked{lease(1)});
  w.send(core::moved{load, move_outcome::ok});
  w.send(core::moved{store, move_outcome::ok});
  w.send(core::drop_parked{lease(1)});
  w.flush();
  CHECK(w.silent(std::chrono::milliseconds(20)));
  CHECK(w.watcher.tier().used == 0);
  CHECK(w.out(lease(2), 0, 4, {0, 1, 2, 3}) == move_outcome::ok);
  CHECK(w.watcher.violations().empty());
}

TEST_CASE("mover: 200 rounds of leaving while the store runs leave the host tier as it was (C155)",
          "[actor]") {
  const auto device = fake();
  mover_world w(device, 8);
  for (std::uint64_t round = 1; round <= 200; ++round) {
    const auto of = lease(round);
    device->hold_copies();
    w.start_out(of, 0, 6, {0, 1, 2});
    REQUIRE(device->wait_copies_started(round));
    if (round % 7 == 0) device->fail_copies = 1;
    device->let_copies_go();  // the client is gone; the scheduler waits for the end of the chunk,
                              // then drops
    const auto outcome = w.matching(w.answer());
    CHECK(outcome == (round % 7 == 0 ? move_outcome::failed : move_outcome::ok));
    w.send(core::drop_parked{of});
  }
  w.flush();
  CHECK(w.watcher.tier().used == 0);
  CHECK(w.watcher.tier().leaked == 0);
  CHECK(w.out(lease(1000), 0, 8, {0, 1, 2, 3, 4, 5, 6, 7}) == move_outcome::ok);
  CHECK(w.watcher.violations().empty());
}

TEST_CASE(
    "mover: 500 copies abandoned between lookup and load pin nothing, the tier can be filled "
    "(C158)",
    "[actor]") {
  const auto device = fake();
  mover_world w(device, 4);
  for (std::uint64_t round = 1; round <= 500; ++round) {
    const auto of = lease(round);
    REQUIRE(w.out(of, 0, 2, {0, 1}) == move_outcome::ok);
    w.send(core::drop_parked{of});
    if (round % 3 == 0)
      REQUIRE(w.in(of, 0, {2, 3}) == move_outcome::failed);  // decided before, sent after
  }
  CHECK(w.out(lease(1000), 0, 4, {0, 1, 2, 3}) == move_outcome::ok);
  CHECK(w.watcher.tier().used == 4);
  CHECK(w.watcher.violations().empty());
}

TEST_CASE("mover: copies of several leases run at once, and one that fills the tier is refused",
          "[actor]") {
  const auto device = fake();
  mover_world w(device, 6);
  device->hold_copies();
  for (std::uint64_t i = 1; i <= 3; ++i) w.start_out(lease(i), 0, 2, {0, 1});
  CHECK(w.out(lease(4), 0, 1, {0}) == move_outcome::host_full);
  device->let_copies_go();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const auto over = w.answer();
    CHECK(over.move.value == i);
    CHECK(over.outcome == move_outcome::ok);
  }
  const auto moves = w.watcher.moves();
  REQUIRE(moves.size() == 4);
  CHECK((moves[0].outcome == move_outcome::host_full && moves[0].blocks == 1));
}

TEST_CASE("mover: an audit drops what no request owns and says so", "[actor]") {
  if (violations_abort) return;
  const auto device = fake();
  mover_world w(device, 8);
  CHECK(w.out(lease(1), 0, 3, {0, 1, 2}) == move_outcome::ok);
  CHECK(w.out(lease(2), 0, 2, {0, 1}) == move_outcome::ok);
  w.send(core::audit{{lease(9)}, {lease(2)}});
  w.send(core::audit{{lease(9)}, {lease(2)}});
  w.flush();
  CHECK(w.watcher.tier().leaked == 3);
  CHECK(w.watcher.tier().used == 2);
  CHECK(w.watcher.violations() ==
        std::vector<std::string>{"dropped 3 host-tier blocks that no live request owns"});
}

TEST_CASE(
    "mover: a message that breaks its contract is a violation, answered as failed, and harms "
    "nothing",
    "[actor]") {
  if (violations_abort) return;
  const auto device = fake();
  mover_world w(device, 8);
  device->hold_copies();
  w.start_out(lease(1), 0, 4, {0, 1});
  REQUIRE(device->wait_copies_started(1));
  CHECK(w.in(lease(1), 0, {3}) == move_outcome::failed);
  w.send(core::move_out{core::move_id{1}, lease(5), 0, 1, {0}});  // its number is under way
  w.send(core::drop_parked{lease(1)});
  w.flush();  // no answer of the repeated number came before this one
  CHECK(w.watcher.violations().size() == 3);
  CHECK(w.watcher.tier().used == 4);
  device->let_copies_go();
  const auto over = w.answer();
  CHECK(over.move.value == 1);
  CHECK(over.outcome == move_outcome::ok);
  CHECK(w.watcher.tier().used == 0);  // dropped at its end
}

TEST_CASE("mover: a copy may end after the mover, and after its actor system", "[actor]") {
  for (const bool system_goes : {false, true}) {
    const auto device = fake();
    std::weak_ptr<host_memory> memory;
    device->hold_copies();
    {
      mover_world w(device, 8);
      memory = w.host;
      w.start_out(lease(1), 0, 3, {0, 1, 2});
      w.start_out(lease(2), 0, 2, {3, 4});
      REQUIRE(device->wait_copies_started(2));
      if (!system_goes) {
        const auto victim = caf::actor_cast<caf::actor>(w.mover);
        (*w.scheduler)->monitor(victim);
        caf::anon_send_exit(victim, caf::exit_reason::kill);
        bool down = false;
        (*w.scheduler)
            ->receive([&](const caf::down_msg&) { down = true; },
                      caf::after(std::chrono::seconds(5)) >> [] {});
        REQUIRE(down);
        w.host = nullptr;
        device->let_copies_go();
        REQUIRE(device->wait_copies_ended(2));
        CHECK(w.silent(std::chrono::milliseconds(20)));
      }
    }
    CHECK(memory.expired() == !system_goes);
    device->let_copies_go();
    REQUIRE(device->wait_copies_ended(2));
    CHECK(memory.expired());
  }
}
