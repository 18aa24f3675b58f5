// Keeps from the TOML parser what a flat file of settings does not need and what the parser of
// Debian 12 (toml++ 3.3) does not survive: sections, inline tables, and anything but ASCII outside
// strings and comments. To be deleted when the oldest toml++ that is supported is newer than 3.3:
// then the parser itself answers such files with an error. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

struct screened_line {
  std::uint32_t line = 0;
  std::string problem;
};

struct screened_toml {
  std::string text;  ///< for the parser; lines keep their numbers, section headers are blanked out
  std::vector<screened_line> problems;
  bool parse = true;  ///< false: what is wrong cannot be blanked out
};

screened_toml screen_toml(const std::string& text);

}  // namespace troupe
