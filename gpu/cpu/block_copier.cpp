#include "gpu/cpu/block_copier.hpp"

#include <cstring>
#include <string>

namespace troupe::gpu {

block_copier::block_copier(const kv_pool& pool) : pool_(pool), thread_([this] { serve(); }) {}

block_copier::~block_copier() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void block_copier::start(block_copy copy, std::function<void(bool ok)> done) {
  const std::uint64_t bytes = copy.blocks.size() * pool_.block_bytes();
  if (copy.host.size() != bytes) {
    throw batch_error("copy: host holds " + std::to_string(copy.host.size()) + " bytes, " +
                      std::to_string(copy.blocks.size()) + " blocks need " + std::to_string(bytes));
  }
  for (std::size_t i = 0; i < copy.blocks.size(); ++i) {
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
  for (;;) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    job next = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    const std::size_t bytes = pool_.block_bytes();
    for (std::size_t i = 0; i < next.copy.blocks.size(); ++i) {
      std::byte* block = pool_.block(next.copy.blocks[i]);
      std::byte* host = next.copy.host.data() + i * bytes;
      const bool out = next.copy.towards == block_copy::direction::to_host;
      std::memcpy(out ? host : block, out ? block : host, bytes);
    }
    next.done(true);
  }
}

}  // namespace troupe::gpu
