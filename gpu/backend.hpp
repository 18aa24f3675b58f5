// The seam to the device: plan, run, copy, report. One thread drives a backend (the executor's);
// copies complete on a thread of the backend. Knows nothing of requests, leases or actors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/device_profile.hpp"
#include "gpu/host_buffer.hpp"
#include "gpu/kv_format.hpp"
#include "gpu/step_batch.hpp"
#include "gpu/weight_report.hpp"

namespace troupe::gpu {

struct device_info {
  std::string name;  ///< "cpu"
  std::string isa;   ///< of its kernels: "avx512-vnni", "avx2", "portable"
  std::uint32_t threads = 0;
  kv_format kv = {};               ///< how the pool's blocks are stored, and how many there are
  std::uint64_t weight_bytes = 0;  ///< resident weights, as repacked
  weight_report weights = {};
};

/// A batch that breaks the contract of step_batch.hpp (our mistake, never a user's): names slice,
/// field, value.
class batch_error : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// A checked batch laid out for the device. Made by plan(), used once by run() of the same backend.
class planned_step {
 public:
  virtual ~planned_step() = default;
};

struct block_copy {
  enum class direction { to_host, to_device };
  direction towards = direction::to_host;
  std::vector<std::uint32_t> blocks;
  std::vector<std::span<std::byte>>
      host;  ///< bytes_of_block for each block; must live until `done` returns
};

class backend {
 public:
  virtual ~backend() = default;
  virtual const device_info& info() const = 0;

  /// Cheap and pure. Throws batch_error.
  virtual std::unique_ptr<planned_step> plan(step_batch) = 0;
  /// Blocks until the step is done; a step is atomic: afterwards nothing of the device touches its
  /// blocks. A sequence's results depend on its own tokens, positions, parameters and KV content
  /// alone: the same bits at every batch make-up, chunking and thread count.
  virtual step_result run(planned_step&) = 0;
  /// Starts a copy and returns; `done(ok)` is called once, from the backend's copy thread. Throws
  /// batch_error, with nothing started, for a block or a host size that does not fit. `done` must
  /// hold no handle on this backend.
  virtual void copy(block_copy, std::function<void(bool ok)> done) = 0;
  /// Host memory for such copies: page-locked where the device has its own memory and copies need
  /// it, plain otherwise. From any thread; may outlive this backend. Throws std::bad_alloc.
  virtual std::unique_ptr<host_buffer> make_host_buffer(std::size_t bytes) {
    return plain_host_buffer(bytes);
  }
  /// Of all steps so far; from any thread. Off, and empty, unless the backend was made to keep one.
  virtual device_profile profile() const { return {}; }
};

}  // namespace troupe::gpu
