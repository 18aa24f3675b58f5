#include "gpu/cpu/weights/panel_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "config/bytes/checksum.hpp"
#include "gpu/cpu/weights/piece_checksums.hpp"
#include "gpu/cpu/weights/weights.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe;
using namespace troupe::gpu;
using outcome = weight_report::panel_cache;

namespace {

constexpr std::size_t header_bytes = 64;

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  REQUIRE(out.good());
}

/// What one start has in memory.
struct started {
  weight_report report;
  std::string panels;
};

/// A model in a folder of its own, and its cache beside it.
struct beside {
  explicit beside(const test::tiny_llama& shape = {}) {
    std::string name = (std::filesystem::temp_directory_path() / "troupe-panels-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    folder = name;
    model = folder + "/model.gguf";
    cache = model + ".panels";
    fresh = cache + ".new";
    write_file(model, test::tiny_llama_bytes(shape));
  }
  ~beside() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  beside(const beside&) = delete;
  beside& operator=(const beside&) = delete;

  started start(bool cached = true, std::uint32_t threads = 2) const {
    const auto file = gguf_file::open(model);
    worker_pool pool(threads);
    const model_weights weights(file, model_config::from_gguf(file), pool, cached);
    const auto memory = weights.memory();
    return {weights.report(), {reinterpret_cast<const char*>(memory.data()), memory.size()}};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  }

  std::string folder, model, cache, fresh;
};

/// Puts `bytes` where the cache is; the start must see through it, pack the right panels and leave
/// a good file.
void expect_rebuilt(const beside& place, const std::string& bytes, const std::string& right,
                    const std::string& reason) {
  write_file(place.cache, bytes);
  const auto again = place.start();
  CHECK(again.report.panels == outcome::rebuilt);
  CHECK_THAT(again.report.why, Catch::Contains(reason));
  CHECK(again.panels == right);
  CHECK(place.start().report.panels == outcome::used);
}

/// A file with this much of it that says it is sound, as another version would have left it.
std::string resealed(std::string bytes) {
  const auto sum = checksum64(std::as_bytes(std::span(bytes)).first(header_bytes - 8));
  std::memcpy(bytes.data() + header_bytes - 8, &sum, 8);
  return bytes;
}

}  // namespace

TEST_CASE(
    "panel_cache: a second start reads back bit for bit what the first packed, for every type and "
    "thread count",
    "[gpu]") {
  for (const tensor_type one : loadable_types()) {
    INFO(name_of(one));
    const auto type = static_cast<std::uint32_t>(one);
    test::tiny_llama shape;
    shape.width = shape.ffn_width = 256;
    shape.type = type;
    shape.tied = type % 2 == 0;
    const beside place(shape);
    const auto packed = place.start(false);
    CHECK(packed.report.panels == outcome::off);
    CHECK(place.files() == 1);
    const auto first = place.start(true, 1);
    CHECK(first.report.panels == outcome::written);
    CHECK(first.panels == packed.panels);
    const auto second = place.start(true, 3);
    CHECK(second.report.panels == outcome::used);
    CHECK(second.report.why.empty());
    CHECK(second.report.path == place.cache);
    CHECK(second.panels == packed.panels);
    CHECK(place.files() == 2);
  }
}

TEST_CASE("panel_cache: used panels come from the file, not from the model", "[gpu]") {
  const beside place;
  const auto right = place.start();
  auto bytes = read_file(place.cache);
  REQUIRE(bytes.size() == header_bytes + right.panels.size());
  bytes[header_bytes + 100] ^= 1;  // and everything resealed, as only a forger would
  const auto sum = checksum64({checksum64(std::as_bytes(std::span(bytes)).subspan(header_bytes))});
  std::memcpy(bytes.data() + 48, &sum, 8);
  write_file(place.cache, resealed(bytes));
  const auto forged = place.start();
  REQUIRE(right.panels.size() <= checksum_piece_bytes);  // one piece, as summed above
  CHECK(forged.report.panels == outcome::used);
  CHECK(forged.panels != right.panels);
}

TEST_CASE("panel_cache: one flipped bit anywhere in the file, and the panels are packed anew",
          "[gpu]") {
  const beside place;
  const auto right = place.start().panels;
  const auto good = read_file(place.cache);
  const auto flipped = [&](std::size_t at) {
    auto bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 1 << at % 8);
    return bytes;
  };
  for (std::size_t at = 0; at < header_bytes; ++at) {
    INFO("byte " << at << " of the header");
    expect_rebuilt(place, flipped(at), right,
                   at < 8    ? "not a file of panels"
                   : at < 12 ? "its format is"
                             : "its header is damaged");
  }
  for (const std::size_t at :
       {header_bytes, header_bytes + 1001, good.size() / 2, good.size() - 4097, good.size() - 1}) {
    INFO("byte " << at);
    expect_rebuilt(place, flipped(at), right, "its panels are damaged");
  }
}

TEST_CASE("panel_cache: a file cut short anywhere, or longer than it says, is not used", "[gpu]") {
  const beside place;
  const auto right = place.start().panels;
  const auto good = read_file(place.cache);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{63}})
    expect_rebuilt(place, good.substr(0, size), right,
                   "truncated inside its header, at " + std::to_string(size));
  for (const std::size_t size : {header_bytes, header_bytes + 1, good.size() / 2, good.size() - 1})
    expect_rebuilt(place, good.substr(0, size), right,
                   "truncated: " + std::to_string(size) + " bytes");
  expect_rebuilt(place, good + "x", right, "something was added");
}

TEST_CASE("panel_cache: a file of other versions or of something else is named", "[gpu]") {
  const beside place;
  const auto right = place.start().panels;
  const auto good = read_file(place.cache);
  const auto with = [&](std::size_t at, std::uint64_t value, std::size_t bytes) {
    auto other = good;
    std::memcpy(other.data() + at, &value, bytes);
    return resealed(other);
  };
  expect_rebuilt(place, with(8, 0, 4), right, "its format is 0, this version reads 2");
  expect_rebuilt(place, with(16, 12345, 8), right, "another layout");
  expect_rebuilt(place, with(40, right.size() - 4096, 8), right, "another layout");
  expect_rebuilt(place, std::string(good.size(), '\0'), right, "not a file of panels");
  expect_rebuilt(place, read_file(place.model), right, "not a file of panels");
}

TEST_CASE("panel_cache: another model of the same size, date and name is noticed, down to one bit",
          "[gpu]") {
  const beside place;
  const auto first = place.start().panels;
  const auto dated = std::filesystem::last_write_time(place.model);
  auto bytes = read_file(place.model);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(place.model, bytes);
  std::filesystem::last_write_time(place.model, dated);
  const auto second = place.start();
  CHECK(second.report.panels == outcome::rebuilt);
  CHECK_THAT(second.report.why, Catch::Contains("another model"));
  CHECK(second.panels != first);
  CHECK(second.panels == place.start(false).panels);
  CHECK(place.start().report.panels == outcome::used);
}

TEST_CASE("panel_cache: the panels of a model copied elsewhere, or with another date, still fit",
          "[gpu]") {
  const beside place;
  const auto right = place.start().panels;
  const std::string moved = place.folder + "/moved.gguf";
  std::filesystem::rename(place.model, moved);
  std::filesystem::copy_file(moved, place.model);
  const auto again = place.start();
  CHECK(again.report.panels == outcome::used);
  CHECK(again.panels == right);
}

TEST_CASE("panel_cache: something in the cache's place that is no file ends in packed panels",
          "[gpu]") {
  const beside place;
  const auto right = place.start(false).panels;
  std::filesystem::create_directory(place.cache);
  const auto folder = place.start();
  CHECK(folder.report.panels == outcome::unkept);
  CHECK_THAT(folder.report.why, Catch::Contains("not a regular file") && Catch::Contains("rename"));
  CHECK(folder.panels == right);
  CHECK_FALSE(std::filesystem::exists(place.fresh));
  std::filesystem::remove(place.cache);
  REQUIRE(::mkfifo(place.cache.c_str(), 0600) == 0);  // nobody writes it: a plain open would wait
  const auto pipe = place.start();
  CHECK(pipe.report.panels == outcome::rebuilt);
  CHECK_THAT(pipe.report.why, Catch::Contains("not a regular file"));
  CHECK(pipe.panels == right);
  std::filesystem::remove(place.cache);
  std::filesystem::create_symlink(place.cache, place.cache);
  const auto circle = place.start();
  CHECK(circle.report.panels == outcome::rebuilt);
  CHECK_THAT(circle.report.why, Catch::Contains("cannot open it"));
  CHECK(circle.panels == right);
}

TEST_CASE("panel_cache: where the file cannot be written the start goes on and says why", "[gpu]") {
  const beside place;
  const auto right = place.start(false).panels;
  std::filesystem::create_directory(place.fresh);
  const auto blocked = place.start();
  CHECK(blocked.report.panels == outcome::unkept);
  CHECK_THAT(blocked.report.why, Catch::Contains("cannot write " + place.fresh));
  CHECK(blocked.panels == right);
  std::filesystem::remove(place.fresh);
  if (::geteuid() != 0) {
    std::filesystem::permissions(place.folder, std::filesystem::perms(0500));
    const auto closed = place.start();
    std::filesystem::permissions(place.folder, std::filesystem::perms(0700));
    CHECK(closed.report.panels == outcome::unkept);
    CHECK_THAT(closed.report.why, Catch::Contains("ermission"));
  }
}

TEST_CASE("panel_cache: a disk that fills up leaves no file behind, and an old one as it was",
          "[gpu]") {
  const beside place;
  const auto right = place.start().panels;
  const auto bad = read_file(place.cache).substr(0, 500);
  for (const bool old : {true, false}) {
    if (old)
      write_file(place.cache, bad);
    else
      std::filesystem::remove(place.cache);
    rlimit usual{};
    ::getrlimit(RLIMIT_FSIZE, &usual);
    const auto before = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit full{10000, usual.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &full);
    const auto start = place.start();
    ::setrlimit(RLIMIT_FSIZE, &usual);
    std::signal(SIGXFSZ, before);
    CHECK(start.report.panels == outcome::unkept);
    CHECK_THAT(start.report.why, Catch::Contains("cannot write it"));
    CHECK(start.panels == right);
    CHECK_FALSE(std::filesystem::exists(place.fresh));
    CHECK(std::filesystem::exists(place.cache) == old);
    if (old) CHECK(read_file(place.cache) == bad);
  }
}

TEST_CASE("panel_cache: a model that changed while it was read is not kept", "[gpu]") {
  const beside place;
  const auto file = gguf_file::open(place.model);
  worker_pool pool(2);
  panel_cache cache(file, {}, pool);
  const std::vector<std::byte> panels(5000);
  CHECK(cache.store(panels).empty());
  std::fstream in_place(place.model, std::ios::binary | std::ios::in | std::ios::out);
  in_place.seekp(-1, std::ios::end);
  const char last = read_file(place.model).back();
  in_place.put(static_cast<char>(last ^ 1)).flush();
  CHECK_THAT(cache.store(panels), Catch::Contains("changed while it was read"));
}

TEST_CASE("panel_cache: while one process writes, another packs for itself and touches nothing",
          "[gpu]") {
  const beside place;
  const auto right = place.start(false).panels;
  const int other = ::open(place.fresh.c_str(), O_RDWR | O_CREAT, 0600);
  REQUIRE(::write(other, "half", 4) == 4);
  REQUIRE(::flock(other, LOCK_EX) == 0);
  const auto beaten = place.start();
  CHECK(beaten.report.panels == outcome::unkept);
  CHECK_THAT(beaten.report.why, Catch::Contains("another process is writing it"));
  CHECK(beaten.panels == right);
  CHECK(read_file(place.fresh) == "half");
  ::close(other);  // killed: its half file is taken over
  CHECK(place.start().report.panels == outcome::written);
  CHECK_FALSE(std::filesystem::exists(place.fresh));
  CHECK(place.start().report.panels == outcome::used);
}

TEST_CASE("panel_cache: many starts at once all have the right panels, and one good file is left",
          "[gpu]") {
  const beside place;
  const auto right = place.start(false).panels;
  for (int round = 0; round < 20; ++round) {
    if (round % 2 == 0)
      std::filesystem::remove(place.cache);
    else
      write_file(place.cache, read_file(place.cache).substr(0, 4000));
    std::vector<started> starts(4);
    std::vector<std::thread> threads;
    for (auto& one : starts) threads.emplace_back([&] { one = place.start(true, 1); });
    for (auto& thread : threads) thread.join();
    for (const auto& one : starts) CHECK(one.panels == right);
    CHECK(place.start().report.panels == outcome::used);
    CHECK(place.files() == 2);
  }
}

TEST_CASE("panel_cache: a reader never meets a half-written file, however many write", "[gpu]") {
  const beside place;
  const auto file = gguf_file::open(place.model);
  const std::vector<std::byte> panels(300'000, std::byte{7});
  worker_pool own(1);
  panel_cache reader(file, {}, own);
  REQUIRE(reader.store(panels).empty());
  std::atomic<int> writing{3}, written{0};
  std::vector<std::thread> writers;
  for (int i = 0; i < 3; ++i) {
    writers.emplace_back([&] {
      worker_pool pool(1);
      panel_cache cache(file, {}, pool);
      for (int n = 0; n < 300; ++n) written += cache.store(panels).empty() ? 1 : 0;
      --writing;
    });
  }
  std::vector<std::string> refused;
  std::vector<std::byte> read(panels.size());
  while (writing > 0) {
    if (const auto why = reader.load(read); !why.empty() || read != panels) refused.push_back(why);
  }
  for (auto& writer : writers) writer.join();
  CHECK(refused == std::vector<std::string>{});
  CHECK(written > 0);
  CHECK(reader.load(read).empty());
}

TEST_CASE("panel_cache: who may not read the model may not read its panels", "[gpu]") {
  const beside place;
  std::filesystem::permissions(place.model, std::filesystem::perms(0640));
  CHECK(place.start().report.panels == outcome::written);
  CHECK(std::filesystem::status(place.cache).permissions() == std::filesystem::perms(0640));
}
