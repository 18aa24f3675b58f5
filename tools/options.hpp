// The command line of `troupe serve`, turned into a runtime_config. All problems are reported at once.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "config/runtime_config.hpp"

namespace troupe {

/// What to print and the exit code, instead of serving: help and version (0), problems (2).
struct early_exit {
  int code = 0;
  std::string text;
};

std::variant<runtime_config, early_exit> parse_options(int argc, const char* const* argv);

}  // namespace troupe
