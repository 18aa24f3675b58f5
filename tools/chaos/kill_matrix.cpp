#include "tools/chaos/kill_matrix.hpp"

#include <algorithm>
#include <numeric>

namespace troupe::chaos {

kill_matrix::kill_matrix(const std::vector<transport>& transports,
                         const std::vector<manner>& manners, strides by, std::uint64_t seed)
    : by_{by}, random_{seed} {
  for (const auto over : transports)
    for (const auto how : manners)
      for (const auto when : {moment::bytes_sent, moment::events_received, moment::milliseconds}) {
        if (how == manner::close_frame && over != transport::websocket) continue;
        cell one;
        one.over = over, one.how = how, one.when = when;
        cells_.push_back(one);
      }
  turn_.resize(cells_.size());
  std::iota(turn_.begin(), turn_.end(), std::size_t{0});
  taken_ = turn_.size();
}

std::uint32_t kill_matrix::stride(moment when) const {
  return when == moment::bytes_sent        ? by_.bytes
         : when == moment::events_received ? by_.events
                                           : by_.milliseconds;
}

kill_plan kill_matrix::next() {
  if (taken_ == turn_.size()) {
    // std::shuffle's order is the library's own; this one is the same everywhere.
    for (std::size_t i = turn_.size(); i > 1; --i) std::swap(turn_[i - 1], turn_[random_() % i]);
    taken_ = 0;
  }
  const auto index = turn_[taken_++];
  auto& at = cells_[index];
  kill_plan plan{index, at.over, at.how, at.when, at.next_n, at.sweeps};
  at.next_n += stride(at.when);
  return plan;
}

void kill_matrix::killed(const kill_plan& plan) {
  auto& at = cells_[plan.index];
  ++at.kills;
  at.largest_n = std::max(at.largest_n, plan.n);
}

void kill_matrix::survived(const kill_plan& plan) {
  auto& at = cells_[plan.index];
  ++at.survived;
  if (plan.sweep != at.sweeps) return;  // one of several of this sweep that were under way at once
  ++at.sweeps;
  at.next_n = static_cast<std::uint32_t>(at.sweeps % stride(at.when));
}

}  // namespace troupe::chaos
