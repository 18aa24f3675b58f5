// Folds a machine's state into 64 bits, so that explored states can be told apart and replays
// compared. Value only; not for security and not stable between builds. Never reads anything but
// what it is given.
#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "actors/core/ids.hpp"

namespace troupe::core {

class state_hash {
 public:
  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T> state_hash& add(T x) {
    return mix(static_cast<std::uint64_t>(x));
  }
  state_hash& add(float x) { return mix(std::bit_cast<std::uint32_t>(x)); }
  template <class Tag>
  state_hash& add(id<Tag> x) {
    return mix(x.value);
  }
  state_hash& add(lease_id x) { return add(x.request).mix(x.epoch); }
  state_hash& add(std::string_view x) {
    mix(x.size());
    for (const char c : x) mix(static_cast<unsigned char>(c));
    return *this;
  }
  template <class T>
  state_hash& add(const std::vector<T>& xs) {
    mix(xs.size());
    for (const T& x : xs) add(x);
    return *this;
  }
  template <class T>
  state_hash& add(const std::optional<T>& x) {
    mix(x.has_value());
    return x ? add(*x) : *this;
  }
  std::uint64_t value() const { return value_; }

 private:
  state_hash& mix(std::uint64_t x) {
    value_ = (std::rotl(value_, 23) ^ x) * 0x9e3779b97f4a7c15ull;
    value_ ^= value_ >> 29;
    return *this;
  }
  std::uint64_t value_ = 0x51ed270b9f6cull;
};

}  // namespace troupe::core
