#include "config/runtime_config.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "config/checks/host_address.hpp"
#include "config/options/option_value.hpp"
#include "config/origin_pattern.hpp"

namespace troupe {

// What no single option's range can say: settings that make no sense together.
std::vector<std::string> runtime_config::contradictions() const {
  std::vector<std::string> out;
  if (const auto problem = host_problem(host); !problem.empty())
    out.push_back("--host: " + problem);
  for (const auto& name : served_model_names)
    if (name.empty()) out.push_back("--served-model-name: an empty name is none");
  if (preemption == "park" && kv_offloading_bytes == 0)
    out.push_back("--preemption: park needs a host tier, --kv-offloading-size above 0");
  if (!prewarm.empty() && !enable_prefix_caching)
    out.push_back("--prewarm: needs --enable-prefix-caching");
  if (on_disconnect == "keep_prefix" && !enable_prefix_caching)
    out.push_back("--on-disconnect: keep_prefix needs --enable-prefix-caching");
  if (plant_leak > 0 && !debug_endpoints)
    out.push_back("--plant-leak: " + std::to_string(plant_leak) + " needs --debug-endpoints");
  for (const auto& origin : allowed_origins)
    if (const auto problem = origin_pattern_problem(origin); !problem.empty())
      out.push_back("--allowed-origins: " + problem);
  for (const auto& key : api_keys) {
    if (key.empty()) out.push_back("--api-key: an empty key would let everybody in");
    // --print-config writes it in place of keys, and its output is a file for --config.
    if (key == "***")
      out.push_back("--api-key: '***' stands for a key that was not printed; give the key itself");
  }
  return out;
}

std::vector<std::string> runtime_config::problems() const {
  std::vector<std::string> out;
  if (model.empty()) out.push_back("MODEL: no model file given");
  for (const auto& spec : option_table())
    if (auto problem = range_problem(spec, *this); !problem.empty())
      out.push_back("--" + spec.name + ": " + problem);
  for (auto& problem : contradictions()) out.push_back(std::move(problem));
  return out;
}

// kB and KiB are the same here: sizes of memory are meant as powers of two.
std::optional<std::uint64_t> parse_size(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  if (text.empty() || !(std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.'))
    return {};
  // Fixed: an exponent in a size is a slip.
  const auto read = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (read.ec != std::errc{}) return {};
  std::string unit(read.ptr, end);
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  while (!unit.empty() && unit.front() == ' ') unit.erase(0, 1);
  double scale = 0;
  if (unit.empty() || unit == "b")
    scale = 1;
  else if (unit == "k" || unit == "kib" || unit == "kb")
    scale = 1024.0;
  else if (unit == "m" || unit == "mib" || unit == "mb")
    scale = 1024.0 * 1024;
  else if (unit == "g" || unit == "gib" || unit == "gb")
    scale = 1024.0 * 1024 * 1024;
  else if (unit == "t" || unit == "tib" || unit == "tb")
    scale = 1024.0 * 1024 * 1024 * 1024;
  const double bytes = value * scale;
  // 1e18 is below 2^60: the cast is safe, and so are sums of a few sizes.
  if (scale == 0 || !std::isfinite(bytes) || bytes < 0 || bytes > 1e18) return {};
  if (scale == 1 && bytes != std::floor(bytes)) return {};  // half a byte
  return static_cast<std::uint64_t>(bytes);
}

// For people: rounded to a tenth; exact_size() is the one that reads back.
std::string format_size(std::uint64_t bytes) {
  constexpr std::array units{"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  char text[64];
  std::snprintf(text, sizeof text, value == std::floor(value) ? "%.0f %s" : "%.1f %s", value,
                units[unit]);
  return text;
}

}  // namespace troupe
