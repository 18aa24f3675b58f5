// What the device tests share: a loaded model (tiny or the real one), a backend on it, slices that
// follow a sequence, and a record of all logits by (slice key, position). Header only, for the
// tests of this folder.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "gpu/cpu/backend_cpu.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

namespace troupe::test {

inline std::shared_ptr<const gpu::loaded_model> load_tiny(const tiny_llama& shape) {
  const temporary_file file(tiny_llama_bytes(shape));  // stays mapped after the name is gone
  return gpu::load_model(file.path());
}

inline gpu::backend_options device_options(std::uint32_t threads, std::uint32_t blocks,
                                           const std::string& isa = "auto",
                                           std::uint32_t block_size = 16) {
  gpu::backend_options options{.block_size = block_size, .num_blocks = blocks};
  options.own = {{"threads", std::to_string(threads)}, {"isa", isa}};
  return options;
}

inline gpu::step_result run_step(gpu::backend& device, gpu::step_batch batch) {
  const auto planned = device.plan(std::move(batch));
  return device.run(*planned);
}

/// Tokens [start, start + count) of a sequence.
inline gpu::sequence_slice slice_of(std::uint64_t key, const std::vector<token_id>& tokens,
                                    std::uint32_t start, std::uint32_t count,
                                    const std::vector<std::uint32_t>& blocks) {
  gpu::sequence_slice slice;
  slice.key = key;
  slice.start = start;
  slice.tokens.assign(tokens.begin() + start, tokens.begin() + start + count);
  slice.blocks = blocks;
  return slice;
}

/// Asks for the logits of every position, by scoring some token there.
inline void want_all(gpu::sequence_slice& slice) {
  slice.score_targets.assign(slice.tokens.size(), 0);
}

/// Host places of one block each, one behind another in `bytes`.
inline std::vector<std::span<std::byte>> cut_into_blocks(std::vector<std::byte>& bytes,
                                                         std::uint64_t block_bytes) {
  std::vector<std::span<std::byte>> places;
  for (std::size_t at = 0; at < bytes.size(); at += block_bytes)
    places.push_back(std::span(bytes).subspan(at, std::min(bytes.size() - at, block_bytes)));
  return places;
}

/// Copies and waits for `done`.
inline bool copy_now(gpu::backend& device, gpu::block_copy copy) {
  std::mutex mutex;
  std::condition_variable wake;
  int answer = -1;
  device.copy(std::move(copy), [&](bool ok) {
    const std::lock_guard lock(mutex);
    answer = ok;
    wake.notify_one();
  });
  std::unique_lock lock(mutex);
  wake.wait(lock, [&] { return answer >= 0; });
  return answer == 1;
}

inline std::vector<std::uint32_t> blocks_from(std::uint32_t first, std::uint32_t count) {
  std::vector<std::uint32_t> blocks(count);
  std::iota(blocks.begin(), blocks.end(), first);
  return blocks;
}

/// Logits seen so far, by slice key and position. The keys of a step must be set before it runs.
class logit_record {
 public:
  explicit logit_record(gpu::cpu_backend& device) {
    device.observe_logits([this](std::uint32_t slice, std::uint32_t position, auto logits) {
      rows_[{keys_.at(slice), position}].assign(logits.begin(), logits.end());
    });
  }
  void expect(const gpu::step_batch& batch) {
    keys_.clear();
    for (const auto& slice : batch.slices) keys_.push_back(slice.key);
  }
  const std::vector<float>& at(std::uint64_t key, std::uint32_t position) const {
    return rows_.at({key, position});
  }

 private:
  std::vector<std::uint64_t> keys_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::vector<float>> rows_;
};

}  // namespace troupe::test
