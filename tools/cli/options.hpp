// The command line of `troupe`: `serve` becomes a runtime_config (from options, environment and
// file), everything else a text to print. All problems are reported at once. Starts nothing.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "config/runtime_config.hpp"

namespace troupe {

/// What to print and the exit code, instead of serving: answers (0, standard output), problems (2,
/// standard error).
struct early_exit {
  int code = 0;
  std::string text;
};

struct parsed_command {
  std::variant<runtime_config, early_exit> what;
  std::vector<std::string> warnings;  ///< what was ignored, and why
};

/// `environment`: NAME=value, as in environ; only TROUPE_ variables are looked at. `on_terminal`:
/// answers are words unless JSON is asked for; else JSON.
parsed_command parse_options(int argc, const char* const* argv,
                             const std::vector<std::string>& environment = {},
                             bool on_terminal = true);

}  // namespace troupe
