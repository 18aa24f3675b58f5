#include "tests/sim/shells/device.hpp"

#include <utility>

namespace troupe::sim {
namespace {

constexpr token_id first_token = 36, last_token = 125;

}  // namespace

device::device(std::uint32_t block_size, std::uint32_t num_blocks) {
  info_.name = "simulated";
  info_.isa = "none";
  info_.threads = 1;
  info_.block_size = block_size;
  info_.num_blocks = num_blocks;
  info_.block_bytes = block_size * sizeof(token_id);
  pool_.assign(std::size_t{block_size} * num_blocks, -1);
}

std::unique_ptr<gpu::planned_step> device::plan(gpu::step_batch batch) {
  if (std::exchange(fail_next_plan, false)) throw gpu::batch_error("the plan was made to fail");
  auto out = std::make_unique<planned>();
  out->batch = std::move(batch);
  return out;
}

gpu::step_result device::run(gpu::planned_step& step) {
  if (std::exchange(fail_next_run, false)) throw std::runtime_error("the step was made to fail");
  auto& batch = static_cast<planned&>(step).batch;
  gpu::step_result result;
  result.step = batch.step;
  result.elapsed_us = 1000;
  for (const auto& slice : batch.slices) result.slices.push_back(run_slice(slice));
  return result;
}

gpu::slice_result device::run_slice(const gpu::sequence_slice& slice) {
  const auto cell = [&](std::uint32_t position) -> token_id& {
    return pool_[std::size_t{slice.blocks.at(position / info_.block_size)} * info_.block_size +
                 position % info_.block_size];
  };
  const auto size = slice.start + static_cast<std::uint32_t>(slice.tokens.size());
  for (std::uint32_t i = slice.start; i < size; ++i) cell(i) = slice.tokens[i - slice.start];
  gpu::slice_result out;
  out.key = slice.key;
  if (slice.sample) {
    std::vector<token_id> history;
    history.reserve(size);
    for (std::uint32_t i = 0; i < size; ++i) history.push_back(cell(i));
    out.sampled = scored_token{next_token(history, slice.sampling.seed), -0.5f, {}};
  }
  return out;
}

token_id device::next_token(const std::vector<token_id>& history, std::uint64_t seed) {
  std::uint64_t hash = seed + 0x9e3779b97f4a7c15ull;
  for (const auto token : history)
    hash = (hash ^ static_cast<std::uint64_t>(token)) * 0x100000001b3ull;
  hash ^= hash >> 29;
  return first_token +
         static_cast<token_id>(hash % static_cast<std::uint64_t>(last_token - first_token + 1));
}

void device::copy(gpu::block_copy ask, std::function<void(bool)> done) {
  if (std::exchange(refuse_next_copy, false))
    throw gpu::batch_error("the copy was made to be refused");
  for (const auto block : ask.blocks)
    if (block >= info_.num_blocks) throw gpu::batch_error("copy: no such block");
  copies_.push_back({std::move(ask), std::move(done)});
}

void device::end_copy(copy_end how) {
  const auto job = std::move(copies_.front());
  copies_.pop_front();
  const bool out = job.ask.towards == gpu::block_copy::direction::to_host;
  const auto count = how == copy_end::failed ? job.ask.blocks.size() / 2 : job.ask.blocks.size();
  for (std::size_t i = 0; i < count; ++i) {
    token_id* const block = &pool_[std::size_t{job.ask.blocks[i]} * info_.block_size];
    std::byte* const host = job.ask.host[i].data();
    out ? std::memcpy(host, block, info_.block_bytes) : std::memcpy(block, host, info_.block_bytes);
  }
  job.done(how != copy_end::failed);
  if (how == copy_end::spoilt && out) job.ask.host.back().back() ^= std::byte{1};
}

}  // namespace troupe::sim
