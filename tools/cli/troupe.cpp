// The product: `troupe serve MODEL` and the commands that answer and end. Parses, then hands over
// to serve().
#include <malloc.h>
#include <unistd.h>

#include <cstdio>

#include "tools/cli/options.hpp"
#include "tools/cli/serve.hpp"

int main(int argc, char** argv) {
  // Long bodies go back to the system when they are done with: left to itself the allocator takes
  // the size of the largest one freed as a hint to keep such memory, in each thread's arena.
  mallopt(M_MMAP_THRESHOLD, 256 * 1024);
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    environment.emplace_back(*entry);
  const auto parsed = troupe::parse_options(argc, argv, environment, isatty(STDOUT_FILENO) == 1);
  if (const auto* stop = std::get_if<troupe::early_exit>(&parsed)) {
    std::fputs(stop->text.c_str(), stop->code == 0 ? stdout : stderr);
    return stop->code;
  }
  return troupe::serve(std::get<troupe::runtime_config>(parsed));
}
