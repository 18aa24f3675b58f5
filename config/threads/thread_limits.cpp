#include "config/threads/thread_limits.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace troupe {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string whole(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool finite(int resource, rlim_t& limit) {
  rlimit both{};
  if (getrlimit(resource, &both) != 0 || both.rlim_cur == RLIM_INFINITY) return false;
  limit = both.rlim_cur;
  return true;
}

}  // namespace

std::uint32_t running_threads() {
  std::istringstream status(whole("/proc/self/status"));
  for (std::string line; std::getline(status, line);)
    if (line.rfind("Threads:", 0) == 0)
      return static_cast<std::uint32_t>(std::stoul(line.substr(sizeof "Threads:" - 1)));
  return 1;  // no /proc: at least the caller
}

// Containers and service managers limit threads by cgroup, which ulimit does not show.
std::string pids_limit(const std::string& cgroup_text, const std::string& mount) {
  std::istringstream groups(cgroup_text);
  for (std::string line; std::getline(groups, line);) {
    // "0::/path" (version 2) or "8:pids:/path" (version 1).
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "pids") continue;
    const auto root = controllers.empty() ? mount : mount + "/pids";
    // A limit of any group above ours holds for us too; the nearest is the likeliest to be meant.
    for (auto path = line.substr(second + 1);; path = path.substr(0, path.rfind('/'))) {
      if (path == "/") path.clear();
      const auto limit = first_line(root + path + "/pids.max");
      if (!limit.empty() && limit != "max")
        return "pids.max is " + limit + " in " + root + path + " (TasksMax, --pids-limit)";
      if (path.empty()) break;
    }
  }
  return {};
}

std::string thread_limits() {
  std::string out;
  const auto add = [&](const std::string& limit) {
    if (!limit.empty()) out += (out.empty() ? "" : "; ") + limit;
  };
  rlim_t limit = 0;
  // Root is exempt.
  if (geteuid() != 0 && finite(RLIMIT_NPROC, limit))
    add("RLIMIT_NPROC (ulimit -u) is " + std::to_string(limit) + " for all threads of user " +
        std::to_string(geteuid()));
  add(pids_limit(whole("/proc/self/cgroup"), "/sys/fs/cgroup"));
  // Each thread maps its stack.
  if (finite(RLIMIT_AS, limit)) add("RLIMIT_AS (ulimit -v) is " + std::to_string(limit) + " bytes");
  // Nothing of this process or user: the machine's own.
  if (out.empty()) add("kernel.threads-max is " + first_line("/proc/sys/kernel/threads-max"));
  return out;
}

}  // namespace troupe
