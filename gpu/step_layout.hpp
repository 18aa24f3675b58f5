// A checked batch, laid out as flat rows in segments of bounded size: what plan() makes and run()
// consumes. A segment goes through all layers before the next begins, so memory does not grow with
// the batch. Pure: reads the batch and the device's limits, touches no weights and no KV.
#pragma once
#include <memory>
#include <vector>

#include "gpu/backend.hpp"

namespace troupe::gpu {

struct step_limits {
  std::uint32_t block_size = 0;
  std::uint32_t num_blocks = 0;
  std::uint32_t vocab = 0;
  std::uint32_t context = 0;       ///< positions are below it
  std::uint32_t segment_rows = 0;  ///< most rows of one segment
};

/// Consecutive rows of one slice.
struct slice_run {
  std::uint32_t slice = 0;
  std::uint32_t row = 0;  ///< in the segment
  std::uint32_t rows = 0;
  std::uint32_t position = 0;
};

/// A row whose logits are needed.
struct wanted_row {
  std::uint32_t slice = 0;
  std::uint32_t row = 0;
  std::uint32_t position = 0;
  token_id target = -1;  ///< -1: not scored
  bool sample = false;
};

struct step_segment {
  std::vector<token_id> tokens;
  std::vector<std::uint32_t> positions;
  std::vector<std::uint32_t> blocks;  ///< KV block of each row's position
  std::vector<slice_run> runs;
  std::vector<wanted_row> wanted;
};

struct laid_out_step final : planned_step {
  step_batch batch;
  std::vector<copied_block> copies;  ///< of all slices; carried out before the first segment
  std::vector<step_segment> segments;
  const void* owner = nullptr;  ///< the backend that planned it
};

/// Throws batch_error naming slice, field and value.
std::unique_ptr<laid_out_step> lay_out(step_batch batch, const step_limits& limits);

}  // namespace troupe::gpu
