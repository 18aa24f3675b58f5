// Where this source tree is. Told to one file only, by a macro: a path of one machine in every
// compile command would keep a second clone from finding the first one's objects in the compiler
// cache.
#pragma once
#include <string>

namespace troupe::test {

/// Absolute path of the source tree the tests were built from.
std::string source_dir();

}  // namespace troupe::test
