// Ids that cannot be guessed: an id can be used to cancel.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::net {

/// `prefix` and 32 hex digits of the kernel's randomness (128 bits).
std::string random_id(std::string_view prefix);
std::uint64_t random_seed();

}  // namespace troupe::net
