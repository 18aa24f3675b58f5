#include "gpu/host_limits.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <vector>

namespace troupe::gpu {

namespace {

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

/// The first number of a one-line file; no_limit for "max", a negative number, or no file.
std::uint64_t read_number(const std::string& path) {
  std::ifstream in(path);
  std::int64_t value = -1;
  return in >> value && value >= 0 ? static_cast<std::uint64_t>(value) : no_limit;
}

/// The process's cgroup directory (version 2) and all above it.
std::vector<std::string> cgroup_directories(const std::string& root) {
  std::vector<std::string> found;
  std::ifstream in(root + "/proc/self/cgroup");
  std::string path;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("0::", 0) == 0) path = line.substr(3);
  }
  while (path.size() > 1) {
    found.push_back(root + "/sys/fs/cgroup" + path);
    path.erase(path.rfind('/'));
  }
  found.push_back(root + "/sys/fs/cgroup");
  return found;
}

/// Bytes of file pages, which the kernel drops before it lets the group run out. `prefix`: "total_"
/// in version 1, where the plain names leave out the groups below.
std::uint64_t reclaimable(const std::string& path, const std::string& prefix) {
  std::uint64_t bytes = 0;
  std::ifstream in(path);
  for (std::string key; in >> key;) {
    std::uint64_t value = 0;
    if ((key == prefix + "active_file" || key == prefix + "inactive_file") && in >> value) {
      bytes += value;
    }
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return bytes;
}

}  // namespace

std::uint32_t usable_cores(const std::string& root) {
  std::uint64_t cores = 1;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    cores = static_cast<std::uint64_t>(std::max(1, CPU_COUNT(&set)));
  }
  const auto apply = [&](std::uint64_t quota, std::uint64_t period) {
    if (quota == no_limit || period == no_limit || period == 0) return;
    cores = std::min(cores, std::max<std::uint64_t>(1, (quota + period - 1) / period));
  };
  for (const std::string& directory : cgroup_directories(root)) {
    std::ifstream in(directory + "/cpu.max");
    std::uint64_t quota = 0, period = 0;
    if (in >> quota >> period) apply(quota, period);
  }
  apply(read_number(root + "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
        read_number(root + "/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
  return static_cast<std::uint32_t>(cores);
}

std::uint64_t available_memory(const std::string& root) {
  std::uint64_t available = no_limit;
  std::ifstream in(root + "/proc/meminfo");
  for (std::string key; in >> key;) {
    std::uint64_t kilobytes = 0;
    if (key == "MemAvailable:" && in >> kilobytes) available = kilobytes * 1024;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  const auto apply = [&](std::uint64_t limit, std::uint64_t used, std::uint64_t cache) {
    if (limit == no_limit || used == no_limit) return;
    used -= std::min(used, cache);
    available = std::min(available, limit > used ? limit - used : 0);
  };
  for (const std::string& directory : cgroup_directories(root)) {
    apply(read_number(directory + "/memory.max"), read_number(directory + "/memory.current"),
          reclaimable(directory + "/memory.stat", ""));
  }
  const std::string old = root + "/sys/fs/cgroup/memory";
  apply(read_number(old + "/memory.limit_in_bytes"), read_number(old + "/memory.usage_in_bytes"),
        reclaimable(old + "/memory.stat", "total_"));
  return available;
}

std::string machine_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace troupe::gpu
