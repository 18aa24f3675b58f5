// The limits on threads that this process runs under, in words for an error message. Reads /proc
// and /sys; decides nothing.
#pragma once
#include <cstdint>
#include <string>

namespace troupe {

/// Threads of this process now, the calling one included.
std::uint32_t running_threads();

/// "RLIMIT_NPROC (ulimit -u) is 7 threads for all processes of user 1000; pids.max is ..."
std::string thread_limits();

/// The same, from the text of /proc/self/cgroup and the folder the cgroups are mounted at. Empty:
/// no pids limit on the way from this process's group to the root.
std::string pids_limit(const std::string& cgroup_text, const std::string& mount);

}  // namespace troupe
