// A configuration file: flat TOML whose keys are the option names. Reads and types it; knows no
// option. Every problem is one line that names the file and, where there is one, the line.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/options/option_value.hpp"

namespace troupe {

struct file_setting {
  std::string key;
  std::uint32_t line = 0;
  given_value value;
};

struct config_file {
  std::vector<file_setting> settings;  ///< in the order of the file
  std::vector<std::string>
      problems;  ///< unreadable, too large, or not TOML: then there are no settings
};

/// At most 1 MiB is read.
config_file read_config_file(const std::string& path);
/// `path` is only for the messages.
config_file parse_config_text(const std::string& text, const std::string& path);

}  // namespace troupe
