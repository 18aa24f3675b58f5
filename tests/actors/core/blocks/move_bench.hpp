// Messages and answers of the mover, made in one line each.
#pragma once
#include <cstdint>
#include <numeric>
#include <vector>

#include "actors/core/blocks/move_ledger.hpp"

namespace troupe::core::testing {

inline lease_id lease(std::uint64_t request, std::uint32_t epoch = 1) {
  return {request_id{request}, epoch};
}

inline move_out out(std::uint64_t move, lease_id of, std::uint32_t first, std::uint32_t count,
                    std::uint32_t total) {
  return {move_id{move}, of, first, total, std::vector<block_id>(count, 7)};
}
inline move_in in(std::uint64_t move, lease_id parked, std::uint32_t first, std::uint32_t count) {
  return {move_id{move}, parked, first, std::vector<block_id>(count, 7)};
}
inline std::vector<std::uint64_t> sums(std::uint64_t first, std::uint32_t count) {
  std::vector<std::uint64_t> all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

}  // namespace troupe::core::testing
