#include "config/threads/thread_limits.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/temporary_file.hpp"

using namespace troupe;

namespace {

/// A folder that stands for /sys/fs/cgroup.
struct cgroup_mount {
  test::temporary_file place{"", "cgroup"};
  std::string root = place.path() + ".d";
  cgroup_mount() { std::filesystem::create_directories(root); }
  ~cgroup_mount() { std::filesystem::remove_all(root); }
  void put(const std::string& group, const std::string& limit) const {
    std::filesystem::create_directories(root + group);
    std::ofstream(root + group + "/pids.max") << limit << "\n";
  }
};

}  // namespace

TEST_CASE("F003 thread_limits: the nearest pids limit above the process is named with its group") {
  const cgroup_mount mount;
  mount.put("/system.slice", "500");
  mount.put("/system.slice/troupe.service", "max");
  mount.put("/kubepods/pod7", "40");
  CHECK(pids_limit("0::/system.slice/troupe.service\n", mount.root) ==
        "pids.max is 500 in " + mount.root + "/system.slice (TasksMax, --pids-limit)");
  CHECK(pids_limit("0::/kubepods/pod7\n", mount.root) ==
        "pids.max is 40 in " + mount.root + "/kubepods/pod7 (TasksMax, --pids-limit)");
}

TEST_CASE("F003 thread_limits: in a container the limit stands at the root of what it sees") {
  const cgroup_mount mount;
  mount.put("", "12");
  CHECK(pids_limit("0::/\n", mount.root) ==
        "pids.max is 12 in " + mount.root + " (TasksMax, --pids-limit)");
}

TEST_CASE("F003 thread_limits: version 1 has a folder for the pids controller") {
  const cgroup_mount mount;
  mount.put("/pids/docker/a", "99");
  CHECK(pids_limit("12:cpu:/docker/a\n8:pids:/docker/a\n", mount.root) ==
        "pids.max is 99 in " + mount.root + "/pids/docker/a (TasksMax, --pids-limit)");
}

TEST_CASE("F003 thread_limits: without a limit nothing is told, and the text is one line") {
  const cgroup_mount mount;
  mount.put("/a", "max");
  CHECK(pids_limit("0::/a\n", mount.root).empty());
  CHECK(pids_limit("", mount.root).empty());
  CHECK(pids_limit("no colons at all", mount.root).empty());
  CHECK_FALSE(thread_limits().empty());
  CHECK(thread_limits().find('\n') == std::string::npos);
  CHECK(running_threads() >= 1);
}
