// One value on its way into runtime_config: read from words or typed file values, checked against
// the option's kind and range, and written back as text. Pure; every refusal is one sentence with
// the value and what is allowed.
#pragma once
#include <string>
#include <vector>

#include "config/options/option_table.hpp"

namespace troupe {

/// A value as its source gave it.
struct given_value {
  /// word: untyped, from the command line or the environment; the others: what the file's syntax
  /// says.
  enum class kind { word, string, integer, real, boolean, list, other } type = kind::word;
  std::string text = {};                ///< the value as written; other: what it is ("a table")
  std::vector<std::string> items = {};  ///< list
};

/// Sets the option's field. Empty when it fits, else what is wrong: "0 is outside 1..4096".
std::string assign(const option_spec&, const given_value&, runtime_config&);

/// The same range check for a field that is already set. Empty when it fits.
std::string range_problem(const option_spec&, const runtime_config&);

/// The field as TOML: 16, "4MiB", true, ["a", "b"]. Empty when the option is unset (no text, no
/// list, no number).
std::string value_text(const option_spec&, const runtime_config&);

/// What is allowed: "1..4096", "1KiB..4GiB", "16 or 32", "true or false"; empty for free text.
std::string range_text(const option_spec&);

/// Bytes exactly, in the largest unit that divides them: "4MiB", "1000B".
std::string exact_size(std::uint64_t bytes);

}  // namespace troupe
