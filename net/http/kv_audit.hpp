// The debugging endpoints: the engine's whole KV state as JSON, and a device step that is delayed
// on purpose. Waits for the parts of the engine's probe, so it must not run on a connection's
// thread. Keeps nothing.
#pragma once
#include <chrono>
#include <string_view>

#include "actors/api/kv_audit.hpp"
#include "net/http/http_message.hpp"

namespace troupe::net {

inline constexpr std::chrono::milliseconds kv_audit_wait{2000};
inline constexpr std::int64_t freeze_ms_max = 60'000;

/// GET /debug/kv. `query`: what follows `?`; `blocks=0` leaves the list of blocks out. Waits for
/// the engine's parts, at most `wait` (then 503, naming what is missing). `probe` may be null: 503.
http_reply kv_audit(core::engine_probe* probe, std::string_view query,
                    std::chrono::milliseconds wait = kv_audit_wait);

/// POST /debug/freeze, body {"ms":N}.
http_reply freeze(core::engine_probe* probe, std::string_view body);

std::string kv_report_json(const core::kv_report&, bool with_blocks);

}  // namespace troupe::net
