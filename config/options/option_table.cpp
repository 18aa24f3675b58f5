#include "config/options/option_table.hpp"

#include <cctype>

#include "config/options/option_rows.hpp"

namespace troupe {
namespace {

std::vector<option_spec> make_table() {
  std::vector<option_spec> table;
  add_model(table);
  add_memory(table);
  add_scheduling(table);
  add_net_limits(table);
  add_net_times(table);
  add_access_and_health(table);
  add_output(table);
  return table;
}

}  // namespace

void add_seconds(std::vector<option_spec>& t, const std::string& group, const char* name,
                 double runtime_config::*field, double low, double high, const char* meaning) {
  t.push_back({.name = name,
               .group = group,
               .field = field,
               .unit = "s",
               .low = low,
               .high = high,
               .meaning = meaning});
}

const std::vector<option_spec>& option_table() {
  static const auto table = make_table();
  return table;
}

const option_spec* find_option(const std::string& name) {
  for (const auto& spec : option_table())
    if (spec.name == name) return &spec;
  return nullptr;
}

std::string variable_name(const option_spec& spec) {
  // max-num-seqs is TROUPE_MAX_NUM_SEQS.
  std::string out = "TROUPE_";
  for (const char ch : spec.name)
    out += ch == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(ch)));
  return out;
}

bool is_flag(const option_spec& spec) {
  return std::holds_alternative<bool runtime_config::*>(spec.field);
}

bool is_list(const option_spec& spec) {
  return std::holds_alternative<std::vector<std::string> runtime_config::*>(spec.field);
}

}  // namespace troupe
