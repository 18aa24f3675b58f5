// Copies whole KV blocks to and from host memory on a thread of its own, in the order asked for,
// with less claim to a core than the workers. Sleeps when idle. Its destructor finishes what was
// asked for, `done` calls included. Knows nothing of who may touch a block meanwhile.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#include "config/threads/joined_thread.hpp"
#include "gpu/backend.hpp"
#include "gpu/cpu/kv_pool.hpp"

namespace troupe::gpu {

class block_copier {
 public:
  explicit block_copier(const kv_pool& pool);
  ~block_copier();

  /// Any thread. Throws batch_error for a block id or a host size that does not fit.
  void start(block_copy copy, std::function<void(bool ok)> done);

 private:
  struct job {
    block_copy copy;
    std::function<void(bool)> done;
  };
  void serve();

  const kv_pool& pool_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<job> jobs_;
  bool stop_ = false;
  joined_thread thread_;  // last: it uses all of the above
};

}  // namespace troupe::gpu
