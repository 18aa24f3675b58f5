// What a table of measurements must name besides its figures: machine, build, command and day.
#pragma once
#include <string>

namespace troupe {

struct run_facts {
  std::string machine, build, command, date;
};

/// `command`: the command line as it was typed.
run_facts facts_of_run(std::string command);
/// Words separated by blanks, quoted where a shell would need it.
std::string command_line(int argc, const char* const* argv);

}  // namespace troupe
