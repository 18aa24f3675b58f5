// How many seeds a random test walks: the usual number, or with TROUPE_PROOF=1 as many as make
// millions of events.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <iostream>

namespace troupe::core::testing {

inline bool proof_run() {
  const char* wanted = std::getenv("TROUPE_PROOF");
  return wanted && *wanted && *wanted != '0';
}

inline std::uint64_t seeds(std::uint64_t usual, std::uint64_t proof) {
  return proof_run() ? proof : usual;
}

/// A line for the log of a proof run: what was done, against how much must be.
inline void tell(const char* what, std::uint64_t done, std::uint64_t floor) {
  if (proof_run())
    std::cout << "proof: " << what << ": " << done << " events compared, floor " << floor
              << std::endl;
}

}  // namespace troupe::core::testing
