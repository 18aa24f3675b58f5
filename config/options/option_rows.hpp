// The rows of the option table by group, for option_table.cpp alone. The order of groups and
// options is that of --help, of --print-config and of the reference.
#pragma once
#include "config/options/option_table.hpp"

namespace troupe {

/// engine_rows.cpp
void add_model(std::vector<option_spec>&);
void add_memory(std::vector<option_spec>&);
void add_scheduling(std::vector<option_spec>&);
/// net_rows.cpp
void add_net_limits(std::vector<option_spec>&);
void add_net_times(std::vector<option_spec>&);
void add_access_and_health(std::vector<option_spec>&);
/// output_rows.cpp
void add_output(std::vector<option_spec>&);

void add_seconds(std::vector<option_spec>&, const std::string& group, const char* name,
                 double runtime_config::*field, double low, double high, const char* meaning);

inline constexpr double KiB = 1024, MiB = KiB * 1024, GiB = MiB * 1024, TiB = GiB * 1024;
inline constexpr double long_time_s = 1e6;

}  // namespace troupe
