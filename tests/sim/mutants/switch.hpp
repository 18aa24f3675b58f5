// Which planted fault is switched on in this process: one number, read once from TROUPE_MUTANT (0
// or unset: none). Only the generated copy of actors/core asks; never part of the product.
#pragma once

namespace troupe::mutants {

extern const int current;
inline bool active(int number) {
  return current == number;
}

}  // namespace troupe::mutants
