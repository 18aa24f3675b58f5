// Options of the log and of debugging.
#include "config/options/option_rows.hpp"

namespace troupe {

using c = runtime_config;

void add_output(std::vector<option_spec>& t) {
  const std::string g = "log and debugging";
  t.push_back({.name = "log-level",
               .group = g,
               .field = &c::log_level,
               .choices = {"trace", "debug", "info", "warn", "error", "off"},
               .meaning = "lowest level that is logged"});
  t.push_back({.name = "log-format",
               .group = g,
               .field = &c::log_format,
               .choices = {"auto", "text", "json"},
               .meaning = "words or JSON lines, on standard output and standard error",
               .unset = "text on a terminal, else json"});
  t.push_back({.name = "profile",
               .group = g,
               .field = &c::profile,
               .meaning = "print at the end where the device's time went, by kind of kernel"});
  t.push_back({.name = "debug-endpoints",
               .group = g,
               .field = &c::debug_endpoints,
               .meaning = "serve the debugging endpoints; not for a public address"});
  t.push_back({.name = "plant-leak",
               .group = g,
               .field = &c::plant_leak,
               // 2^32 - 1: the whole range of its field.
               .high = 4294967295.0,
               .meaning = "for tests of the audit: lose the N-th release; needs debug-endpoints",
               .unset = "none"});
}

}  // namespace troupe
