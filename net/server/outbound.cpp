#include "net/server/outbound.hpp"

#include <utility>

namespace troupe::net {

push_result outbound::push(const std::string& frame, std::size_t credit) {
  // An empty queue takes any frame: a single one larger than the limit must still be sendable.
  if (!empty() && bytes() + frame.size() > bytes_max_) return push_result::dropped;
  waiting_ += frame;
  if (credit != no_credit) waiting_credits_.push_back(credit);
  return bytes() * 2 > bytes_max_ ? push_result::backpressure : push_result::ok;
}

bool outbound::begin_write() {
  if (!writing_.empty() || waiting_.empty()) return false;
  // Buffers change roles, so their memory is used again.
  writing_.swap(waiting_);
  writing_credits_.swap(waiting_credits_);
  return true;
}

bool outbound::advance(std::size_t bytes) {
  written_ += bytes;
  if (written_ < writing_.size()) return false;
  // The memory of a large reply is not the connection's to keep.
  writing_.capacity() > kept_capacity ? std::string{}.swap(writing_) : writing_.clear();
  written_ = 0;
  return true;
}

std::vector<std::size_t> outbound::credits() {
  return std::exchange(writing_credits_, {});
}

}  // namespace troupe::net
