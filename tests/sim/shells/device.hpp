// The device of a simulated run: no thread, no clock. Its cache holds the tokens themselves
// (history_pool), and the next token is a function of the history read back through the block
// table: a block that is shared, lost or freed too early changes the text. Copies read and write
// their blocks only when the run chooses to end them. Owned by the run.
#pragma once
#include <deque>
#include <functional>

#include "tests/support/history_pool.hpp"

namespace troupe::sim {

class device final : public gpu::backend {
 public:
  device(std::uint32_t block_size, std::uint32_t num_blocks);

  const gpu::device_info& info() const override { return pool_.info(); }
  std::unique_ptr<gpu::planned_step> plan(gpu::step_batch batch) override;
  gpu::step_result run(gpu::planned_step& step) override;
  void copy(gpu::block_copy ask, std::function<void(bool)> done) override;

  /// The next token after `history`, one of the printable bytes of the tiny vocabulary.
  static token_id next_token(const std::vector<token_id>& history, std::uint64_t seed);

  std::size_t copies() const { return copies_.size(); }
  /// Ends the oldest copy: whole, half done and failed, or whole with a byte changed afterwards.
  enum class copy_end { ok, failed, corrupted };
  void end_copy(copy_end how);
  void drop_copies() { copies_.clear(); }

  bool fail_next_plan = false, fail_next_run = false, refuse_next_copy = false;

 private:
  struct copy_job {
    gpu::block_copy ask;
    std::function<void(bool)> done;
  };

  test::history_pool pool_;
  std::deque<copy_job> copies_;
};

}  // namespace troupe::sim
