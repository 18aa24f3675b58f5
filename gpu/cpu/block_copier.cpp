#include "gpu/cpu/block_copier.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace troupe::gpu {

namespace {

/// A step is as slow as its slowest worker, a copy is in no such hurry: where both want the same
/// core, the worker gets three quarters of it.
constexpr int copier_nice = 5;

}  // namespace

block_copier::block_copier(const kv_pool& pool)
    : pool_(pool), thread_("troupe.copy", [this] { serve(); }) {}

block_copier::~block_copier() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void block_copier::start(block_copy copy, std::function<void(bool ok)> done) {
  if (copy.host.size() != copy.blocks.size()) {
    throw batch_error("copy: " + std::to_string(copy.host.size()) + " host places for " +
                      std::to_string(copy.blocks.size()) + " blocks");
  }
  for (std::size_t i = 0; i < copy.blocks.size(); ++i) {
    if (copy.host[i].size() != pool_.block_bytes()) {
      throw batch_error("copy: host[" + std::to_string(i) + "] holds " +
                        std::to_string(copy.host[i].size()) + " bytes, a block has " +
                        std::to_string(pool_.block_bytes()));
    }
    if (copy.blocks[i] >= pool_.num_blocks()) {
      throw batch_error("copy: blocks[" + std::to_string(i) + "] is " +
                        std::to_string(copy.blocks[i]) + ", the pool has " +
                        std::to_string(pool_.num_blocks()));
    }
  }
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({std::move(copy), std::move(done)});
  }
  wake_.notify_one();
}

void block_copier::serve() {
  // On Linux this is the thread's own value. Without the right to it the copies just compete.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), copier_nice);
  for (;;) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    job next = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    const bool out = next.copy.towards == block_copy::direction::to_host;
    for (std::size_t i = 0; i < next.copy.blocks.size(); ++i) {
      std::byte* block = pool_.block(next.copy.blocks[i]);
      const std::span<std::byte> host = next.copy.host[i];
      std::memcpy(out ? host.data() : block, out ? block : host.data(), host.size());
    }
    next.done(true);
  }
}

}  // namespace troupe::gpu
