// Memory of the host that a device copies blocks to and from. A device with a memory of its own
// hands out page-locked memory, which it can reach while its host's threads do something else;
// others hand out plain memory. Owned by the caller that asked for it; may outlive the backend.
#pragma once
#include <cstddef>
#include <memory>

namespace troupe::gpu {

class host_buffer {
 public:
  host_buffer() = default;
  host_buffer(const host_buffer&) = delete;
  host_buffer& operator=(const host_buffer&) = delete;
  virtual ~host_buffer() = default;
  virtual std::byte* data() const = 0;
  virtual std::size_t size() const = 0;
};

/// One anonymous mapping, untouched until it is written. Throws std::bad_alloc.
std::unique_ptr<host_buffer> plain_host_buffer(std::size_t bytes);

}  // namespace troupe::gpu
