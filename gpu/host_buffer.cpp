#include "gpu/host_buffer.hpp"

#include "gpu/memory_region.hpp"

namespace troupe::gpu {
namespace {

class mapped_buffer final : public host_buffer {
 public:
  explicit mapped_buffer(std::size_t bytes) : region_(bytes) {}
  std::byte* data() const override { return region_.data(); }
  std::size_t size() const override { return region_.size(); }

 private:
  memory_region region_;
};

}  // namespace

std::unique_ptr<host_buffer> plain_host_buffer(std::size_t bytes) {
  return std::make_unique<mapped_buffer>(bytes);
}

}  // namespace troupe::gpu
