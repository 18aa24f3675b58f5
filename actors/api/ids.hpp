// Distinct id types, so that two ids cannot be swapped by mistake. Internal ids count up and are
// never reused: a late message about a request that is gone names no request instead of a wrong
// one. The id that a client gives is a label and never one of these.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "config/bytes/mix64.hpp"

namespace troupe::core {

template <class Tag>
struct id {
  std::uint64_t value = 0;  ///< 0 = none
  constexpr auto operator<=>(const id&) const = default;
  explicit constexpr operator bool() const { return value != 0; }
};

using request_id = id<struct request_tag>;
using step_id = id<struct step_tag>;
using move_id = id<struct move_tag>;

/// The blocks one request holds from an admission to its end or preemption: named by the request
/// and the number of its leases so far. The scheduler names a lease before it asks for blocks, so
/// it can release one whose grant it has not seen yet.
struct lease_id {
  request_id request;
  std::uint32_t epoch = 0;
  constexpr auto operator<=>(const lease_id&) const = default;
};

/// Index of a KV block in the pool.
using block_id = std::uint32_t;

/// Microseconds of a monotonic clock; comes in through parameters only.
using time_us = std::int64_t;

}  // namespace troupe::core

template <class Tag>
struct std::hash<troupe::core::id<Tag>> {
  std::size_t operator()(const troupe::core::id<Tag>& x) const noexcept {
    return std::hash<std::uint64_t>{}(x.value);
  }
};
template <>
struct std::hash<troupe::core::lease_id> {
  std::size_t operator()(const troupe::core::lease_id& x) const noexcept {
    return std::hash<std::uint64_t>{}(
        troupe::mix64(x.request.value + x.epoch * troupe::golden_step));
  }
};
