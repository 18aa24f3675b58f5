// A tally in words for a terminal, as one JSON object for a pipe. Pure functions but for the memory
// of a process.
#pragma once

#include <optional>
#include <string>

#include "tools/chaos/settings.hpp"
#include "tools/chaos/tally.hpp"

namespace troupe::chaos {

std::string in_json(const settings&, const tally&);
std::string in_words(const settings&, const tally&);
/// One line while it runs.
std::string progress_line(const settings&, const tally&);

/// Resident bytes of a process; nothing when there is none.
std::optional<double> resident_bytes(int pid);

}  // namespace troupe::chaos
