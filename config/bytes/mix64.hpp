// The one 64-bit mixing function of the tree: hash codes, seeded choices, random numbers drawn from
// a counter. A bijection, so different inputs never meet; not for security.
#pragma once
#include <cstdint>

namespace troupe {

/// 2^64 divided by the golden ratio, odd: its multiples are spread evenly over the words, which is
/// why counters are stepped by it.
inline constexpr std::uint64_t golden_step = 0x9e3779b97f4a7c15u;

/// Spreads every input bit over the whole word: the output step of SplitMix64 (Steele, Lea and
/// Flood, 2014), with the constants Stafford found best by search (his variant 13).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace troupe
