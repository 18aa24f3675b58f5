#include <fmt/format.h>

#include "config/options/load_config.hpp"

namespace troupe {
namespace {

/// "tokens, 1..65536"
std::string unit_and_range(const option_spec& spec) {
  const auto range = range_text(spec);
  return spec.unit + (spec.unit.empty() || range.empty() ? "" : ", ") + range;
}

}  // namespace

std::string config_toml(const loaded_config& loaded) {
  static const runtime_config defaults;
  std::string out =
      "# Settings of `troupe serve`: pass this file with --config FILE. Precedence: option, "
      "TROUPE_ variable, file, default.\n"
      "# In brackets: where each value came from.\n";
  std::string group;
  for (const auto& spec : option_table()) {
    if (spec.group != group) out += "\n# " + (group = spec.group) + "\n";
    const auto value = value_text(spec, loaded.config);
    const auto origin = loaded.origins.find(spec.name);
    std::string notes = spec.meaning;
    if (const auto allowed = unit_and_range(spec); !allowed.empty()) notes += "; " + allowed;
    // The default of such an option is "decide at the start": say how.
    if (!spec.unset.empty() && value == value_text(spec, defaults))
      notes += "; means: " + spec.unset;
    notes += origin == loaded.origins.end() ? " [default]" : " [" + origin->second + "]";
    out += fmt::format("{:<36}# {}\n",
                       // A setting without a value is written as a comment: there is no TOML for
                       // "not set".
                       value.empty() ? "# " + spec.name + " =" : spec.name + " = " + value + " ",
                       notes);
  }
  return out;
}

std::string option_reference() {
  static const runtime_config defaults;
  std::string out, group;
  for (const auto& spec : option_table()) {
    if (spec.group != group)
      out += fmt::format(
          "{}**{}**\n\n| option | default | unit, range | meaning |\n|---|---|---|---|\n",
          group.empty() ? "" : "\n", spec.group);
    group = spec.group;
    auto value = value_text(spec, defaults);
    if (!spec.unset.empty()) value += (value.empty() ? "" : ": ") + spec.unset;
    std::string names = "`--" + spec.name + "`";
    for (const auto& alias : spec.aliases)
      names += (alias.size() == 1 ? ", `-" : ", `--") + alias + "`";
    out += fmt::format("| {} | {} | {} | {}{} |\n", names, value, unit_and_range(spec),
                       spec.meaning, is_list(spec) ? "; repeatable" : "");
  }
  return out;
}

}  // namespace troupe
