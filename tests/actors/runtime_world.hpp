// A runtime over the tiny model's vocabulary, with a backend whose next token depends on the whole
// history it was given.
#pragma once
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/runtime.hpp"
#include "tests/support/fake_backend.hpp"
#include "tests/support/recording.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

namespace troupe::test {

/// One runtime over the tiny model's vocabulary. Tokens 36..125 are printable bytes.
struct world {
  explicit world(std::uint32_t blocks = 32, runtime_config settings = {}) {
    settings.model = file.path();
    config = settings;
    model = gpu::load_model(file.path());
    device = std::make_shared<fake_backend>(16, blocks, 36, 125);
    engine =
        std::make_unique<runtime>(config, model, device, watcher, [this](const std::string& what) {
          std::lock_guard lock(watcher.mutex);
          fatal.push_back(what);
          watcher.changed.notify_all();
        });
  }
  ~world() { device->let_go(); }

  struct running {
    std::shared_ptr<recording_sink> sink = std::make_shared<recording_sink>();
    std::shared_ptr<core::generation> handle;
  };
  running start(core::generation_request request, bool credit = true) {
    running out;
    device_gate lock(*this, credit);
    out.handle = engine->submit(std::move(request), out.sink);
    if (credit) out.sink->credit = out.handle;
    return out;
  }
  /// Holds the first delta back until the sink knows its handle.
  struct device_gate {
    device_gate(world& owner, bool) : owner_(owner), was_held_(owner.held) {
      owner_.device->hold();
    }
    ~device_gate() {
      if (!was_held_) owner_.device->let_go();
    }
    world& owner_;
    bool was_held_;
  };
  void hold() { held = true, device->hold(); }
  void let_go() { held = false, device->let_go(); }

  std::string expected_text(std::vector<token_id> history, int tokens,
                            std::uint64_t seed = 0) const {
    std::string out;
    for (int i = 0; i < tokens; ++i) {
      history.push_back(device->next_token(history, seed));
      out += model->vocabulary.bytes(history.back());
    }
    return out;
  }

  temporary_file file{tiny_llama_bytes()};
  runtime_config config;
  recording_observer watcher;
  std::shared_ptr<const gpu::loaded_model> model;
  std::shared_ptr<fake_backend> device;
  std::vector<std::string> fatal;
  bool held = false;
  std::unique_ptr<runtime> engine;
};

inline core::generation_request ask(std::vector<token_id> prompt, std::uint32_t max_tokens) {
  core::generation_request request;
  request.prompt = std::move(prompt);
  request.decode.max_tokens = max_tokens;
  return request;
}

}  // namespace troupe::test
