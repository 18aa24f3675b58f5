// What this process may use of the machine: cores by affinity and cgroup quota, memory by what is
// free and by the cgroup's limit. Reads /proc and /sys on every call; caches nothing.
#pragma once
#include <cstdint>
#include <string>

namespace troupe::gpu {

/// At least 1. A fractional quota rounds up. `root`: where proc and sys are, another place only in
/// tests; the affinity is always this process's.
std::uint32_t usable_cores(const std::string& root = "");
/// Bytes that can still be taken before the machine or the cgroup runs out.
std::uint64_t available_memory(const std::string& root = "");
/// "Intel(R) Xeon(R) ...", or "unknown".
std::string machine_name();

}  // namespace troupe::gpu
