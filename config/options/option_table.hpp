// The one table of everything that can be set for `troupe serve`: name, unit, range, meaning, and
// the field of runtime_config that it fills. Command line, environment, configuration file, range
// checks, --print-config and the reference in config/README.md all come from it. Owns no values and
// reads none.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/runtime_config.hpp"

namespace troupe {

/// Which field an option fills, and so what kind of value it takes. uint64 fields are sizes in
/// bytes.
using option_field =
    std::variant<bool runtime_config::*, std::uint16_t runtime_config::*,
                 std::uint32_t runtime_config::*, std::optional<std::uint32_t> runtime_config::*,
                 std::uint64_t runtime_config::*, double runtime_config::*,
                 std::string runtime_config::*, std::vector<std::string> runtime_config::*>;

struct option_spec {
  std::string name;  ///< kebab-case: the flag without dashes, and the key of the file
  std::vector<std::string> aliases =
      {};  ///< further flags; one letter: a short one. Not for file and environment
  std::string group = {};
  option_field field;
  std::string unit = {};     ///< tokens, s, ms, blocks; empty for bare numbers, sizes and texts
  double low = 0, high = 0;  ///< numbers and sizes, both ends allowed
  std::vector<std::string> choices = {};  ///< when not empty: the only values
  std::string meaning = {};               ///< one line
  std::string unset = {};        ///< what the default means, where its value does not show it
  std::uint64_t plain_unit = 1;  ///< sizes: the bytes that a number without a unit counts
  bool splits_commas = false;    ///< lists: one word may hold several
  bool inverted = false;         ///< flags: given means that the field is false
  bool secret = false;           ///< never printed
};

/// In the order of the reference, grouped.
const std::vector<option_spec>& option_table();
/// nullptr: no option of that name (aliases are not looked at).
const option_spec* find_option(const std::string& name);
/// max-num-seqs -> TROUPE_MAX_NUM_SEQS.
std::string variable_name(const option_spec&);
bool is_flag(const option_spec&);
bool is_list(const option_spec&);

}  // namespace troupe
