// The 64-bit checksum by which a KV block that comes back from the host tier is known to be the one
// that was parked. Any change within one 64-bit word is found for certain, others all but
// certainly. Against decay and our own mistakes, not against an attacker; never stored or sent
// anywhere.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::core {

std::uint64_t block_checksum(std::span<const std::byte> bytes);

}  // namespace troupe::core
