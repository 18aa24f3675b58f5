#include "tests/support/source_dir.hpp"

namespace troupe::test {

std::string source_dir() {
  return TROUPE_SOURCE_DIR;
}

}  // namespace troupe::test
