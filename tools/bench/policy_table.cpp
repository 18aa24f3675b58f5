#include "tools/bench/policy_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace troupe {

nlohmann::ordered_json to_json(const policy_table& table) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& row : table.rows) {
    nlohmann::ordered_json one = {{"policy", row.policy}};
    for (std::size_t i = 0; i < table.columns.size(); ++i)
      one[table.columns[i]] = std::round(row.figures[i] * 1000) / 1000;
    rows.push_back(std::move(one));
  }
  return {{"title", table.title}, {"rows", rows}};
}

std::string to_words(const policy_table& table) {
  std::size_t widest = 6;
  for (const auto& row : table.rows) widest = std::max(widest, row.policy.size());
  auto out = fmt::format("\n{}: {}\n{:{}}", table.name, table.title, "", widest);
  for (auto column : table.columns) {
    std::replace(column.begin(), column.end(), '_', ' ');
    out += fmt::format("  {:>{}}", column, std::max<std::size_t>(column.size(), 7));
  }
  out += '\n';
  for (const auto& row : table.rows) {
    out += fmt::format("{:{}}", row.policy, widest);
    for (std::size_t i = 0; i < row.figures.size(); ++i) {
      const double x = row.figures[i];
      out += fmt::format("  {:>{}.{}f}", x, std::max<std::size_t>(table.columns[i].size(), 7),
                         std::abs(x) < 100 ? 2 : 0);
    }
    out += '\n';
  }
  return out;
}

}  // namespace troupe
