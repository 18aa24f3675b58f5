#include "tools/bench/build_facts.hpp"

#include <fmt/core.h>

#include <ctime>

#include "gpu/host_limits.hpp"

namespace troupe {

run_facts facts_of_run(std::string command) {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  localtime_r(&now, &day);
#ifdef __clang__
  const std::string compiler = fmt::format("clang {}.{}", __clang_major__, __clang_minor__);
#else
  const std::string compiler = fmt::format("gcc {}.{}", __GNUC__, __GNUC_MINOR__);
#endif
  return {gpu::machine_name(),
          fmt::format("troupe {}, {}, {}", TROUPE_VERSION, compiler, TROUPE_BUILD_TYPE),
          std::move(command),
          fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday)};
}

std::string command_line(int argc, const char* const* argv) {
  std::string out;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    const bool plain =
        !word.empty() && word.find_first_of(" '\"\\$&|;<>()*?`") == std::string::npos;
    out += i ? " " : "";
    out += plain ? word : "'" + word + "'";
  }
  return out;
}

}  // namespace troupe
