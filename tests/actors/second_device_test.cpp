// A device of another kind behind the same seam: found by its name, with options, memory and a
// format of K and V of its own, it serves, preempts through the host tier and answers alike however
// its requests are batched.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "actors/runtime.hpp"
#include "gpu/make_backend.hpp"
#include "tests/support/float_device.hpp"
#include "tests/support/recording.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe;
using test::float_device;

namespace {

const std::vector<gpu::device_kind>& two_kinds() {
  static const std::vector<gpu::device_kind> kinds{gpu::device_kinds()[0], float_device::kind(),
                                                   float_device::windowed_kind()};
  return kinds;
}

std::shared_ptr<const gpu::loaded_model> tiny_model() {
  const test::temporary_file file(test::tiny_llama_bytes());
  return gpu::load_model(file.path());
}

/// A runtime on the float device, of one layer group or two, which it asks for by name.
struct float_world {
  explicit float_world(std::uint32_t blocks, runtime_config settings = {},
                       const char* name = "float")
      : model(tiny_model()),
        device(gpu::make_backend(model, {.num_blocks = blocks, .device = name}, two_kinds())) {
    settings.model = "tiny";
    engine = std::make_unique<runtime>(settings, model, device, watcher,
                                       [this](const std::string& what) { fatal = what; });
  }

  struct running {
    std::shared_ptr<test::recording_sink> sink = std::make_shared<test::recording_sink>();
    std::shared_ptr<core::generation> handle;
  };
  /// Request i: a prompt and a seed of its own, drawn at random where i is odd.
  running start(int i) {
    core::generation_request request;
    request.prompt = std::vector<token_id>{40 + i, 50, 60};
    request.decode.max_tokens = 57;
    request.decode.ignore_eos = true;
    request.decode.sampling.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    request.decode.sampling.seed = static_cast<std::uint64_t>(i);
    running out;
    out.handle = engine->submit(std::move(request), out.sink);
    return out;
  }

  /// Reads to the end, one delta at a time, and answers the text.
  static std::string read(running& one) {
    auto& sink = *one.sink;
    for (;;) {
      REQUIRE(sink.wait([&] { return sink.outstanding > 0 || sink.ends > 0; }, hang));
      {
        const std::lock_guard lock(sink.mutex);
        if (sink.ends > 0) break;
        --sink.outstanding;
      }
      one.handle->delivered();
    }
    CHECK(sink.finish.reason == core::end_reason::length);
    return sink.text;
  }
  void require_whole() {
    CHECK(watcher.wait([&] { return watcher.pool.used == 0 && watcher.host.used == 0; }, hang));
    CHECK(watcher.violations.empty());
    CHECK(fatal.empty());
  }
  static constexpr auto hang = std::chrono::minutes(2);

  std::shared_ptr<const gpu::loaded_model> model;
  std::shared_ptr<gpu::backend> device;
  /// What was in use at least while the request still ran with all its 8 blocks given.
  struct trim_observer : test::recording_observer {
    void on_pool(const core::pool_record& record) override {
      if (record.allocated_total == 8 && record.used > 0)
        least_used_of_8 = std::min<std::uint64_t>(least_used_of_8, record.used);
      test::recording_observer::on_pool(record);
    }
    std::uint64_t least_used_of_8 = 99;  // written by the allocator, read when it is at rest
  };
  trim_observer watcher;
  std::string fatal;
  std::unique_ptr<runtime> engine;
};

using answers = std::array<std::string, 6>;

/// Each on a device of its own.
answers answers_alone(const char* name = "float") {
  answers alone;
  for (int i = 0; i < 6; ++i) {
    float_world w(32, {}, name);
    auto one = w.start(i);
    alone[static_cast<std::size_t>(i)] = float_world::read(one);
    w.require_whole();
  }
  return alone;
}

/// All of them at once.
void require_answers(float_world& w, const answers& expected) {
  std::vector<float_world::running> all;
  for (int i = 0; i < 6; ++i) all.push_back(w.start(i));
  for (int i = 0; i < 6; ++i)
    CHECK(float_world::read(all[static_cast<std::size_t>(i)]) ==
          expected[static_cast<std::size_t>(i)]);
  w.require_whole();
}

}  // namespace

TEST_CASE("second device: found by its name, it serves and answers alike alone and batched",
          "[actor]") {
  const auto alone = answers_alone();
  CHECK(alone[0] != alone[2]);  // the prompt counts
  float_world w(32);
  CHECK(w.device->info().name == "float");
  CHECK(w.device->info().kv.types == gpu::kv_f32);
  require_answers(w, alone);
}

TEST_CASE("second device: it preempts through the host tier, in memory it gave itself", "[actor]") {
  const auto alone = answers_alone();
  runtime_config settings;
  settings.max_num_seqs = 6;
  // Room for 32 blocks of two layers' f32; the pool has 10, six requests want 24.
  settings.kv_offloading_bytes = 32 * 16 * 2 * 2 * 2 * 16 * 4;
  float_world w(10, settings);
  const auto& device = dynamic_cast<const float_device&>(*w.device);
  CHECK(device.host_bytes() == settings.kv_offloading_bytes);
  require_answers(w, alone);
  CHECK(w.watcher.parks > 0);
  w.engine.reset();
  CHECK(device.host_bytes() == 0);
}

TEST_CASE(
    "layer groups: a group gives blocks back that its window has passed, the other keeps its own",
    "[actor]") {
  float_world w(32, {}, "windowed");
  CHECK(w.device->info().kv.groups.size() == 2);
  auto one = w.start(1);  // drawn at random, so that every difference shows
  const auto text = float_world::read(one);
  w.require_whole();
  CHECK(w.watcher.pool.total == 64);
  CHECK(w.watcher.pool.allocated_total == 8);
  // 59 tokens come into the cache, 4 blocks of each group. Before the last of them is computed, the
  // window has passed 58 - 24 + 1 = 35 tokens: two blocks of the second group are back.
  CHECK(w.watcher.least_used_of_8 == 4 + 2);
  CHECK(text != answers_alone()[1]);  // the window counts
}

TEST_CASE("layer groups: batched, preempted and parked, the answers are those given alone",
          "[actor]") {
  const auto alone = answers_alone("windowed");
  {
    float_world w(32, {}, "windowed");
    require_answers(w, alone);
  }
  runtime_config settings;
  settings.max_num_seqs = 6;
  const auto recompute = settings;
  settings.kv_offloading_bytes = 64 * 16 * 2 * 2 * 16 * 4;  // 64 blocks of one layer's f32
  {
    float_world w(10, settings, "windowed");
    require_answers(w, alone);
    CHECK(w.watcher.parks > 0);
  }
  float_world w(10, recompute, "windowed");
  require_answers(w, alone);
}

TEST_CASE("layer groups: several answers to one prompt share its rows and copy one of each group",
          "[actor]") {
  const auto ask = [](std::uint64_t seed) {
    core::generation_request request;
    std::vector<token_id> prompt;
    for (token_id t = 0; t < 40; ++t) prompt.push_back(40 + t);
    request.prompt = std::move(prompt);
    request.decode.max_tokens = 20;
    request.decode.ignore_eos = true;
    request.decode.sampling.temperature = 1.0f;
    request.decode.sampling.seed = seed;
    return request;
  };
  std::vector<std::string> alone;
  for (std::uint64_t seed = 7; seed < 10; ++seed) {
    float_world w(32, {}, "windowed");
    float_world::running one;
    one.handle = w.engine->submit(ask(seed), one.sink);
    alone.push_back(float_world::read(one));
  }
  float_world w(32, {}, "windowed");
  std::vector<float_world::running> all(3);
  std::vector<core::answer_choice> choices;
  for (std::size_t i = 0; i < 3; ++i) choices.push_back({7 + i, all[i].sink});
  const auto handles = w.engine->submit_choices(ask(7), choices);
  for (std::size_t i = 0; i < 3; ++i) {
    all[i].handle = handles.at(i);
    CHECK(float_world::read(all[i]) == alone[i]);
  }
  w.require_whole();
  // Each has 4 rows of two blocks, of which the forks share the prompt's two full ones.
  CHECK(w.watcher.pool.allocated_total == 3 * 8);
}

TEST_CASE("second device: the same model on two devices says nearly the same", "[actor]") {
  const auto model = tiny_model();
  std::vector<std::vector<scored_token>> scores;
  for (const char* name : {"cpu", "float"}) {
    const auto device = gpu::make_backend(model, {.num_blocks = 4, .device = name}, two_kinds());
    gpu::sequence_slice slice;
    for (token_id t = 10; t < 40; ++t) slice.tokens.push_back(t);
    slice.blocks = {2, 0};
    slice.score_targets.assign(30, 70);
    gpu::step_batch batch;
    batch.slices.push_back(std::move(slice));
    const auto planned = device->plan(std::move(batch));
    scores.push_back(device->run(*planned).slices.at(0).scores);
  }
  REQUIRE(scores[0].size() == 30);
  REQUIRE(scores[1].size() == 30);
  // f16 keys and values on one side; everything else is float32 arithmetic in another order.
  for (std::size_t i = 0; i < 30; ++i)
    CHECK(scores[0][i].logprob == Approx(scores[1][i].logprob).margin(0.02));
}

TEST_CASE("make_backend: a device is chosen by name, and has the options that are its own",
          "[gpu]") {
  using Catch::Matchers::Contains;
  const auto model = tiny_model();
  const auto on = [&](gpu::backend_options options) {
    options.num_blocks = 2;
    return gpu::make_backend(model, options, two_kinds())->info();
  };
  CHECK(on({}).name == "cpu");
  CHECK(on({.device = "float"}).name == "float");
  CHECK(on({.device = "float", .kv_cache_dtype = "f32"}).kv.types == gpu::kv_f32);
  CHECK(on({.kv_cache_dtype = "f16"}).kv.types == gpu::kv_f16);
  CHECK_THROWS_WITH(on({.device = "cuda"}),
                    Contains("--device: \"cuda\" is not one of auto, cpu, float"));
  CHECK_THROWS_WITH(
      on({.device = "float", .kv_cache_dtype = "f16"}),
      Contains("--kv-cache-dtype: \"f16\" is not one of auto, f32, which the device float stores"));
  gpu::backend_options own;
  own.own = {{"isa", "portable"}, {"threads", "1"}, {"panel-cache", ""}};
  CHECK(on(own).isa == "portable");
  CHECK(on(own).threads == 1);
  own.own["threads"] = "1025";
  CHECK_THROWS_WITH(on(own), Contains("--threads: \"1025\" is not a number from 0 to 1024"));
  own.own["threads"] = "";
  own.device = "float";
  CHECK_THROWS_WITH(on(own), Contains("--isa: the device float has no such option"));
}

TEST_CASE("make_backend: auto takes the first device that the machine has", "[gpu]") {
  std::vector<gpu::device_kind> kinds = two_kinds();
  kinds[0].present = [] { return false; };
  CHECK(gpu::choose_device("auto", kinds).name == "float");
  CHECK_THROWS_WITH(gpu::choose_device("cpu", kinds),
                    Catch::Contains("--device: this machine has no \"cpu\""));
}
