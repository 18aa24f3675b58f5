#include "config/options/load_config.hpp"

#include <algorithm>
#include <set>

#include "config/checks/host_address.hpp"
#include "config/checks/service_links.hpp"
#include "config/nearest.hpp"
#include "config/options/config_file.hpp"

namespace troupe {
namespace {

constexpr const char* prefix = "TROUPE_";
constexpr const char* config_variable = "TROUPE_CONFIG";

constexpr const char* not_near = "--help lists them all";

/// The file knows each setting by one name, or two spellings of it could contradict each other.
std::string unknown_key(const std::string& key) {
  std::vector<std::string> names;
  for (const auto& spec : option_table()) {
    names.push_back(spec.name);
    if (std::find(spec.aliases.begin(), spec.aliases.end(), key) != spec.aliases.end())
      return "unknown key; its name here is " + spec.name;
  }
  const auto near = nearest(key, names);
  return "unknown key; " + (near.empty() ? not_near : "did you mean " + near + "?");
}

class loader {
 public:
  explicit loader(loaded_config& out) : out_(out) {}

  /// `where` is for messages, `origin` for --print-config.
  void take(const option_spec& spec, const given_value& value, const std::string& where,
            const std::string& origin) {
    // Every mistake is collected: the error lists all of them at once.
    if (auto problem = assign(spec, value, out_.config); !problem.empty())
      out_.problems.push_back(where + ": " + problem);
    else
      out_.origins[spec.name] = origin;
  }

  void take_file(const std::string& path) {
    auto file = read_config_file(path);
    for (auto& problem : file.problems) out_.problems.push_back(std::move(problem));
    for (const auto& setting : file.settings) {
      const auto place = path + ":" + std::to_string(setting.line);
      if (const auto* spec = find_option(setting.key))
        take(*spec, setting.value, place + ": " + setting.key, "file " + place);
      else
        out_.problems.push_back(place + ": " + setting.key + ": " + unknown_key(setting.key));
    }
  }

  /// Unknown names with our prefix are mistakes: a misspelt limit must not be ignored.
  void take_environment(const std::vector<std::string>& environment) {
    const auto prefix_length = std::string(prefix).size();
    std::vector<std::string> known,
        endings;  // endings: what is compared, or the prefix alone makes names alike
    for (const auto& spec : option_table()) {
      known.push_back(variable_name(spec));
      endings.push_back(known.back().substr(prefix_length));
    }
    std::set<std::string> seen;
    std::vector<std::string> links;
    for (const auto& entry : environment) {
      if (entry.rfind(prefix, 0) != 0) continue;
      const auto name = entry.substr(0, entry.find('='));
      const auto& owned = tool_variables();
      if (name == config_variable || std::find(owned.begin(), owned.end(), name) != owned.end())
        continue;
      // As getenv(): the first of two counts.
      if (!seen.insert(name).second) continue;
      const auto equals = entry.find('=');
      const auto value = equals == entry.npos ? "" : entry.substr(equals + 1);
      if (value.empty()) continue;  // compose files pass a variable that is not set as an empty one
      if (is_service_link(name, value)) {
        links.push_back(name);
        continue;
      }
      const auto at = std::find(known.begin(), known.end(), name);
      if (at == known.end()) {
        const auto near = nearest(name.substr(prefix_length), endings);
        out_.problems.push_back(
            name + ": unknown variable; " +
            (near.empty() ? not_near : std::string("did you mean ") + prefix + near + "?"));
        continue;
      }
      const auto& spec = option_table()[static_cast<std::size_t>(at - known.begin())];
      take(spec, {given_value::kind::word, value, {}}, name, "environment " + name);
    }
    std::sort(links.begin(), links.end());
    if (!links.empty()) out_.warnings.push_back(service_links_ignored(links));
  }

 private:
  loaded_config& out_;
};

std::string variable(const std::vector<std::string>& environment, const std::string& name) {
  for (const auto& entry : environment)
    if (entry.rfind(name + "=", 0) == 0) return entry.substr(name.size() + 1);
  return {};
}

}  // namespace

// Of scripts and tests, which may be set in the same shell.
const std::vector<std::string>& tool_variables() {
  static const std::vector<std::string> names{
      "TROUPE_BINARY",     "TROUPE_BENCH",  "TROUPE_CHAOS", "TROUPE_E2E_SCALE",
      "TROUPE_FRESH_ROOT", "TROUPE_MUTANT", "TROUPE_PROOF"};
  return names;
}

loaded_config load_config(const config_sources& sources) {
  loaded_config out;
  loader load(out);
  // From the weakest to the strongest: a later one replaces what an earlier one set.
  const auto file =
      sources.file.empty() ? variable(sources.environment, config_variable) : sources.file;
  if (!file.empty()) load.take_file(file);
  load.take_environment(sources.environment);
  for (const auto& option : sources.options)
    load.take(*option.spec, option.value, option.as, "option " + option.as);
  out.config.host = without_brackets(out.config.host);
  // Whether it was given, not its value, decides if the pool may shrink to what is free.
  out.config.kv_cache_memory_given = out.origins.count("kv-cache-memory") > 0;
  // Behind the sources: a later one may have resolved what an earlier one began.
  for (auto& problem : out.config.contradictions()) out.problems.push_back(std::move(problem));
  return out;
}

}  // namespace troupe
