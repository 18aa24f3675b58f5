// The log: one line per event on standard error, as words or as JSON. Thread-safe. Never writes a
// prompt or a key unless its caller hands one over.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace troupe {

enum class log_level { trace, debug, info, warn, error, off };

using log_value = std::variant<std::string, std::int64_t, std::uint64_t, double, bool>;
using log_fields = std::vector<std::pair<std::string, log_value>>;

/// `level`: trace, debug, info, warn, error or off.
void configure_log(const std::string& level, bool json);

/// text: `12:00:01 info request_ended id=chatcmpl-1 reason=length`; JSON:
/// `{"time":...,"event":"request_ended",...}`.
void log_event(log_level level, const std::string& event, const log_fields& fields = {});

/// One value as JSON text (strings escaped, invalid UTF-8 replaced).
std::string to_json(const log_value& value);
/// `{"a":1,...}` in the order given.
std::string to_json(const log_fields& fields);

}  // namespace troupe
