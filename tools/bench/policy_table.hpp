// One table of figures, as words and as JSON. A value.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace troupe {

struct policy_table {
  std::string name;                  ///< of the table in JSON and on the command line
  std::string title;                 ///< what is compared, on which requests
  std::vector<std::string> columns;  ///< figures' names with their units, as JSON keys
  struct row {
    std::string policy;
    std::vector<double> figures;  ///< one for each column
  };
  std::vector<row> rows;
};

nlohmann::ordered_json to_json(const policy_table&);
std::string to_words(const policy_table&);

}  // namespace troupe
