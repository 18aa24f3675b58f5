#include "tools/cli/memory_plan.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "gpu/host_limits.hpp"
#include "gpu/make_backend.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe;

namespace {

constexpr std::uint64_t MiB = 1 << 20;

/// proc and sys of a machine made for the test.
class fake_root {
 public:
  fake_root()
      : path_(std::filesystem::temp_directory_path() /
              ("troupe-root-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    file("proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 8388608 kB\n");
    file("proc/self/cgroup", "0::/a/b\n");
  }
  ~fake_root() { std::filesystem::remove_all(path_); }
  void file(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// 128 KiB a token, 2 MiB a block of 16.
gpu::kv_format small_model() {
  return gpu::one_group_format(gpu::kv_f16, 32, 8, 128, 16, 0);
}

std::string refused(const runtime_config& config, std::uint64_t available) {
  try {
    plan_pool(config, small_model(), 500 * MiB, available);
    return {};
  } catch (const std::runtime_error& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("memory_plan: memory and cores end at the tightest cgroup above the process",
          "[config]") {
  const fake_root root;
  CHECK(gpu::available_memory(root.path()) == 8192 * MiB);
  root.file("sys/fs/cgroup/a/b/memory.max", "max\n");
  root.file("sys/fs/cgroup/a/b/memory.current", "1048576\n");
  CHECK(gpu::available_memory(root.path()) == 8192 * MiB);
  root.file("sys/fs/cgroup/a/memory.max", std::to_string(1024 * MiB));
  root.file("sys/fs/cgroup/a/memory.current", std::to_string(1000 * MiB));
  CHECK(gpu::available_memory(root.path()) == 24 * MiB);
  // Pages of files can be dropped: a group full of them is not full.
  root.file("sys/fs/cgroup/a/memory.stat",
            "anon 5\ninactive_file 104857600\nactive_file 209715200\n");
  CHECK(gpu::available_memory(root.path()) == 324 * MiB);
  root.file("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(100 * MiB));
  root.file("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(200 * MiB));
  CHECK(gpu::available_memory(root.path()) == 0);
  root.file("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  CHECK(gpu::usable_cores(root.path()) == 1);
}

TEST_CASE("memory_plan: the default pool shrinks to what the cgroup leaves, and says so",
          "[config]") {
  const fake_root root;
  const runtime_config config;
  CHECK(plan_pool(config, small_model(), 500 * MiB, gpu::available_memory(root.path())).blocks ==
        512);
  root.file("sys/fs/cgroup/a/memory.max", std::to_string(800 * MiB));
  root.file("sys/fs/cgroup/a/memory.current", "0");
  const auto plan = plan_pool(config, small_model(), 500 * MiB, gpu::available_memory(root.path()));
  CHECK(plan.blocks == (800 - 500 - 64) / 2);
  CHECK(plan.shrunk ==
        "the KV pool is 236 MiB instead of 1 GiB: with weights 500 MiB and 64 MiB to work in that "
        "is all of "
        "the 800 MiB this process may use");
}

TEST_CASE("memory_plan: a pool that was asked for is refused with both sums instead", "[config]") {
  runtime_config config;
  config.kv_cache_memory_given = true;
  CHECK(refused(config, 800 * MiB) ==
        "--kv-cache-memory: 512 blocks are 1 GiB, with weights 500 MiB and 64 MiB to work in more "
        "than the 800 MiB this process may use; 118 blocks (236 MiB) fit");
  CHECK(refused(config, 1588 * MiB).empty());  // 1024 + 500 + 64: exactly
  CHECK_FALSE(refused(config, 1588 * MiB - 1).empty());
  config.num_kv_blocks = 119;
  CHECK(refused(config, 800 * MiB).find("--num-kv-blocks: 119 blocks are 238 MiB") == 0);
  config.num_kv_blocks = 118;
  CHECK(refused(config, 800 * MiB).empty());
}

TEST_CASE("memory_plan: the host tier counts, and weights that leave no block are refused",
          "[config]") {
  runtime_config config;
  config.kv_offloading_bytes = 200 * MiB;
  CHECK(plan_pool(config, small_model(), 500 * MiB, 800 * MiB).blocks == 18);
  config.kv_offloading_bytes = 300 * MiB;
  CHECK(
      refused(config, 800 * MiB) ==
      "memory: weights 500 MiB, host tier 300 MiB and 64 MiB to work in leave no KV block of 2 MiB "
      "in the 800 MiB this process may use");
  CHECK_FALSE(refused(runtime_config{}, 0).empty());
}

TEST_CASE("memory_plan: a pool below one block and one past 32 bits are refused", "[config]") {
  runtime_config config;
  config.kv_cache_memory = MiB;
  CHECK(refused(config, 8192 * MiB) == "--kv-cache-memory: 1 MiB holds no block of 2 MiB");
  config.kv_cache_memory = 1ull << 44;
  const auto model = gpu::one_group_format(gpu::kv_f16, 1, 1, 16, 16, 0);  // 1 KiB a block
  CHECK_THROWS_WITH(plan_pool(config, model, 0, 1ull << 50),
                    Catch::Contains("more than 2^32 - 1 blocks"));
}

TEST_CASE("memory_plan: weights are counted as the device packs them", "[config]") {
  for (const auto type : {0u, 1u, 2u, 3u, 8u, 12u}) {
    for (const bool tied : {true, false}) {
      test::tiny_llama tiny;
      tiny.width = tiny.ffn_width = 256;
      tiny.type = type;
      tiny.other_type = 14;  // Q6_K, of the embedding among others
      tiny.tied = tied;
      const test::temporary_file file{test::tiny_llama_bytes(tiny)};
      const auto model = gpu::load_model(file.path());
      CHECK(gpu::choose_device("auto").weight_bytes(model->file.tensors()) ==
            gpu::make_backend(model, {.num_blocks = 1})->info().weight_bytes);
    }
  }
}
