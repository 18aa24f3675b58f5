// Loads, prints what it starts with, serves, drains on SIGTERM, SIGINT or SIGHUP; the second signal
// stops.
#pragma once
#include <string>
#include <vector>

#include "config/runtime_config.hpp"

namespace troupe {

/// 0 after a drain; 2: model, options, memory or port; 70: an actor of the engine died.
/// `warnings`: of reading the settings, for the log.
int serve(runtime_config config, const std::vector<std::string>& warnings = {});

}  // namespace troupe
