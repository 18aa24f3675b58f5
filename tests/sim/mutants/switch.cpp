#include "tests/sim/mutants/switch.hpp"

#include <cstdlib>

namespace troupe::mutants {

const int current = [] {
  const char* number = std::getenv("TROUPE_MUTANT");
  return number ? std::atoi(number) : 0;
}();

}  // namespace troupe::mutants
