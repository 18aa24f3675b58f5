// The state x event table as actors/STATES.md has it: row by row, the words of each cell.
#pragma once
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/source_dir.hpp"

namespace troupe::core::testing {

inline std::string trimmed(std::string s) {
  const auto from = s.find_first_not_of(" `");
  const auto to = s.find_last_not_of(" `");
  return from == std::string::npos ? "" : s.substr(from, to - from + 1);
}

/// Of the table whose first row begins with `first`.
inline std::map<std::string, std::vector<std::string>> state_rows(const std::string& first) {
  std::ifstream in(troupe::test::source_dir() + "/actors/STATES.md");
  REQUIRE(in.good());
  std::map<std::string, std::vector<std::string>> rows;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("| " + first + " |", 0) == 0) inside = true;
    if (inside && line.rfind("|", 0) != 0) break;
    if (!inside) continue;
    std::vector<std::string> cells;
    std::stringstream s(line);
    for (std::string cell; std::getline(s, cell, '|');) cells.push_back(trimmed(cell));
    if (cells.size() > 1) rows[cells[1]] = {cells.begin() + 2, cells.end()};
  }
  return rows;
}

}  // namespace troupe::core::testing
