#include "actors/executor_actor.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <thread>
#include <utility>

#include "actors/fail_stop.hpp"

namespace troupe {
namespace {

/// Takes what the items hold: a step's plan is used once.
gpu::step_batch to_batch(core::step_plan& plan, std::uint32_t block_size) {
  gpu::step_batch batch;
  batch.step = plan.step.value;
  batch.slices.reserve(plan.items.size());
  for (auto& item : plan.items) {
    gpu::sequence_slice slice;
    slice.key = item.request.value;
    slice.start = item.start;
    const auto groups = item.copy_from.size();
    for (std::size_t g = 0; g < groups; ++g)
      slice.copies.push_back(
          {item.copy_from[g], item.blocks[item.start / block_size * groups + g]});
    for (const auto& tail : item.tails) slice.tails.push_back({tail.request.value, tail.seed});
    slice.tokens = std::move(item.tokens);
    slice.blocks = std::move(item.blocks);
    slice.sample = item.sample;
    slice.decode = std::move(item.decode);
    slice.allowed = std::move(item.allowed);
    slice.suppressed = std::move(item.suppressed);
    slice.history = std::move(item.history);
    slice.history_prompt = item.history_prompt;
    slice.score_targets = std::move(item.score_targets);
    batch.slices.push_back(std::move(slice));
  }
  return batch;
}

core::step_done to_report(gpu::step_result&& result) {
  core::step_done report;
  report.step = core::step_id{result.step};
  report.elapsed_us = result.elapsed_us;
  report.items.reserve(result.slices.size());
  for (auto& slice : result.slices) {
    core::item_result item{core::request_id{slice.key}, slice.bad_logits,
                           std::move(slice.sampled),    std::move(slice.scores),
                           slice.nothing_allowed,       {}};
    for (auto& tail : slice.tails)
      item.tails.push_back({core::request_id{tail.key}, std::move(tail.sampled)});
    report.items.push_back(std::move(item));
  }
  return report;
}

core::step_record to_record(const core::step_plan& plan) {
  core::step_record record;
  record.step = plan.step.value;
  record.sequences = static_cast<std::uint32_t>(plan.items.size());
  for (const auto& item : plan.items) {
    const auto tokens = static_cast<std::uint32_t>(item.tokens.size());
    (tokens == 1 && item.sample ? record.decode_tokens : record.prefill_tokens) += tokens;
  }
  return record;
}

}  // namespace

protocol::executor_actor::behavior_type executor_actor(protocol::executor_actor::pointer self,
                                                       const std::shared_ptr<gpu::backend>& device,
                                                       const protocol::scheduler_actor& scheduler,
                                                       core::observer* watcher) {
  fail_stop(self, *watcher, "executor");
  const auto frozen_ms = std::make_shared<std::uint32_t>(0);
  return {
      [=](core::step_plan& plan) {
        if (const auto ms = std::exchange(*frozen_ms, 0); ms > 0)
          std::this_thread::sleep_for(std::chrono::milliseconds(ms));
        auto record = to_record(plan);
        try {
          auto planned = device->plan(to_batch(plan, device->info().kv.block_size));
          auto report = to_report(device->run(*planned));
          record.elapsed_us = report.elapsed_us;
          watcher->on_step(record);
          self->send(scheduler, std::move(report));
        } catch (const std::exception& e) {
          // The backend has thrown before it touched the pool (plan) or with the step over (run):
          // the blocks are quiet either way, so the step counts as failed and the engine goes on.
          self->send(scheduler, core::step_failed{plan.step, e.what()});
        }
      },
      [=](const protocol::freeze& ask) { *frozen_ms = ask.ms; },
  };
}

}  // namespace troupe
