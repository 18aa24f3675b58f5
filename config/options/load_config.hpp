// From the three places where settings come from to one runtime_config: option before environment
// before file before default. Every value of every source is checked, also one that another source
// overrides. Reads the file and nothing else of the outside; the environment is handed in.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "config/options/option_value.hpp"

namespace troupe {

/// An option of the command line.
struct given_option {
  const option_spec* spec = nullptr;  ///< of option_table()
  std::string as;                     ///< as it was written: "--ctx-size"
  given_value value;
};

struct config_sources {
  std::string file;  ///< path; empty: TROUPE_CONFIG, if that is set
  /// NAME=value; names without TROUPE_ are passed over, an empty value counts as unset.
  std::vector<std::string> environment;
  std::vector<given_option> options;
};

struct loaded_config {
  runtime_config config;
  std::map<std::string, std::string>
      origins;  ///< option name to "option --port"; absent: the default
  /// Values that do not fit, unknown keys and variables, contradictions. A missing model is not one
  /// of them.
  std::vector<std::string> problems;
  std::vector<std::string> warnings;  ///< what was ignored, and why
};

loaded_config load_config(const config_sources&);

/// Variables that begin with TROUPE_ and belong to the tools and tests: never settings, never
/// errors.
const std::vector<std::string>& tool_variables();

/// The effective configuration as TOML that --config reads back; every key with its range, meaning
/// and origin. Keys are
/// "***": such a file is refused until the keys are put in.
std::string config_toml(const loaded_config&);

/// The option table as Markdown: the reference in config/README.md.
std::string option_reference();

}  // namespace troupe
