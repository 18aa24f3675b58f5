// Hashes everything that decides a machine's future into 128 bits, so that the explorer recognises
// states it has visited. Ids that only distinguish things (blocks, leases, moves, steps, cache
// nodes) are numbered in the order in which they are met, and times count from now: two states that
// differ in such names only have one hash, which keeps the number of states small. A value; not for
// security and not stable between builds.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "actors/api/ids.hpp"

namespace troupe::core {

struct state_digest {
  std::uint64_t high = 0, low = 0;
  auto operator<=>(const state_digest&) const = default;
};

class state_hash {
 public:
  explicit state_hash(time_us now = 0) : now_(now) {}

  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T> state_hash& add(T x) {
    return mix(static_cast<std::uint64_t>(x));
  }
  state_hash& add(float x) { return mix(std::bit_cast<std::uint32_t>(x)); }
  state_hash& add(request_id x) { return mix(x.value); }
  state_hash& add(move_id x) { return mix(name(moves, x.value)); }
  state_hash& add(step_id x) { return mix(name(steps, x.value)); }
  state_hash& add(lease_id x) {
    return add(x.request).mix(name(leases, x.request.value << 32 | x.epoch));
  }
  state_hash& add_block(block_id x) { return mix(name(blocks, std::uint64_t{x} + 1)); }
  state_hash& add_blocks(std::span<const block_id> xs) {
    mix(xs.size());
    for (const auto x : xs) add_block(x);
    return *this;
  }
  /// A node of the prefix cache; 0: none.
  state_hash& add_place(std::uint64_t x) { return mix(name(places, x)); }
  /// A moment that something waits for; the largest value means never.
  state_hash& add_due(time_us x) {
    const bool ever = x != std::numeric_limits<time_us>::max();
    return mix(static_cast<std::uint64_t>(ever ? std::max<time_us>(x - now_, 0) : x));
  }
  state_hash& add(std::string_view x) {
    mix(x.size());
    for (const char c : x) mix(static_cast<unsigned char>(c));
    return *this;
  }
  template <class T>
  state_hash& add(const std::vector<T>& xs) {
    return add_all(xs);
  }
  /// Of anything with a size and elements.
  template <class Range>
  state_hash& add_all(const Range& xs) {
    mix(xs.size());
    for (const auto& x : xs) add(x);
    return *this;
  }
  template <class T>
  state_hash& add(const std::optional<T>& x) {
    mix(x.has_value());
    return x ? add(*x) : *this;
  }
  state_digest digest() const { return value_; }

 private:
  enum kind { moves, steps, leases, blocks, places, kinds };

  // A state has few names, so a linear search is the fastest.
  std::uint64_t name(kind k, std::uint64_t raw) {
    if (raw == 0) return 0;
    auto& met = names_[k];
    const auto at = std::find(met.begin(), met.end(), raw);
    if (at != met.end()) return static_cast<std::uint64_t>(at - met.begin()) + 1;
    met.push_back(raw);
    return met.size();
  }
  state_hash& mix(std::uint64_t x) {
    value_.high = (std::rotl(value_.high, 23) ^ x) * 0x9e3779b97f4a7c15ull;
    value_.high ^= value_.high >> 29;
    value_.low = (std::rotl(value_.low, 37) + x) * 0xd6e8feb86659fd93ull;
    value_.low ^= value_.low >> 32;
    return *this;
  }

  time_us now_;
  state_digest value_{0x51ed270b9f6cull, 0x2545f4914f6cdd1dull};
  std::array<std::vector<std::uint64_t>, kinds> names_;
};

}  // namespace troupe::core
