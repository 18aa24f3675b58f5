// A device's profile in words and as JSON: where the time of its steps went, beside what the
// machine could do. Values to text; measures nothing.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "gpu/device_profile.hpp"

namespace troupe {

/// A table with a line for each kind of kernel that ran; ends with a newline.
std::string profile_words(const gpu::device_profile&);
/// The same figures; a kind that did not run is left out. Below 4 KiB.
nlohmann::ordered_json profile_json(const gpu::device_profile&);

}  // namespace troupe
