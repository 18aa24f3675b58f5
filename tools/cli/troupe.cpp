// The product: `troupe serve MODEL` and the commands that answer and end. Parses, then hands over
// to serve().
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "tools/cli/options.hpp"
#include "tools/cli/serve.hpp"

namespace {

/// A standard stream that is closed at the start becomes /dev/null: otherwise the next descriptor
/// that is opened, a client's socket perhaps, would get its number and all that is printed or
/// logged.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) == -1 && errno == EBADF && open("/dev/null", O_RDWR) != stream)
      _exit(2);  // nowhere to say why
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  // Long bodies go back to the system when they are done with: left to itself the allocator takes
  // the size of the largest one freed as a hint to keep such memory, in each thread's arena.
  mallopt(M_MMAP_THRESHOLD, 256 * 1024);
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    environment.emplace_back(*entry);
  const auto parsed = troupe::parse_options(argc, argv, environment, isatty(STDOUT_FILENO) == 1);
  if (const auto* stop = std::get_if<troupe::early_exit>(&parsed.what)) {
    for (const auto& warning : parsed.warnings)
      std::fprintf(stderr, "troupe: warning: %s\n", warning.c_str());
    std::fputs(stop->text.c_str(), stop->code == 0 ? stdout : stderr);
    return stop->code;
  }
  return troupe::serve(std::get<troupe::runtime_config>(parsed.what), parsed.warnings);
}
