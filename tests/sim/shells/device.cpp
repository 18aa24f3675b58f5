#include "tests/sim/shells/device.hpp"

#include <utility>

namespace troupe::sim {
namespace {

constexpr token_id first_token = 36, last_token = 125;

}  // namespace

device::device(std::uint32_t block_size, std::uint32_t num_blocks)
    : pool_("simulated", block_size, num_blocks, first_token, last_token) {}

std::unique_ptr<gpu::planned_step> device::plan(gpu::step_batch batch) {
  if (std::exchange(fail_next_plan, false)) throw gpu::batch_error("the plan was made to fail");
  auto out = std::make_unique<test::planned_batch>();
  out->batch = std::move(batch);
  return out;
}

gpu::step_result device::run(gpu::planned_step& step) {
  if (std::exchange(fail_next_run, false)) throw std::runtime_error("the step was made to fail");
  return pool_.run(static_cast<test::planned_batch&>(step).batch);
}

token_id device::next_token(const std::vector<token_id>& history, std::uint64_t seed) {
  return test::history_pool::next_token(history, seed, first_token, last_token);
}

void device::copy(gpu::block_copy ask, std::function<void(bool)> done) {
  if (std::exchange(refuse_next_copy, false))
    throw gpu::batch_error("the copy was made to be refused");
  pool_.check(ask);
  copies_.push_back({std::move(ask), std::move(done)});
}

void device::end_copy(copy_end how) {
  const auto job = std::move(copies_.front());
  copies_.pop_front();
  const bool out = job.ask.towards == gpu::block_copy::direction::to_host;
  pool_.copy(job.ask, how != copy_end::failed);
  job.done(how != copy_end::failed);
  if (how == copy_end::corrupted && out) job.ask.host.back().back() ^= std::byte{1};
}

}  // namespace troupe::sim
