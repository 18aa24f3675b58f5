// A runtime over the fake backend, alone or in a host's actor system, and host actors that record
// the answers they get.
#pragma once
#include <caf/response_promise.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <set>

#include "actors/embedding/caf_system.hpp"
#include "tests/support/fake_backend.hpp"
#include "tests/support/recording.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

namespace troupe::test {

/// Everything that must outlive the runtime. Tokens 36 to 125 are printable bytes.
struct host_world {
  explicit host_world(runtime_config settings = {}) : config(std::move(settings)) {
    config.model = file.path();
  }

  std::unique_ptr<runtime> start(caf::actor_system& system) {
    return std::make_unique<runtime>(system, config, model, device, watcher, on_fatal());
  }
  std::function<void(const std::string&)> on_fatal() {
    return [this](const std::string& what) {
      const std::lock_guard lock(watcher.mutex);
      fatal.push_back(what);
      watcher.changed.notify_all();
    };
  }
  std::string expected_text(std::vector<token_id> history, int tokens) const {
    std::string out;
    for (int i = 0; i < tokens; ++i) {
      history.push_back(device->next_token(history, 0));
      out += model->vocabulary.bytes(history.back());
    }
    return out;
  }

  temporary_file file{tiny_llama_bytes()};
  runtime_config config;
  recording_observer watcher;
  std::shared_ptr<const gpu::loaded_model> model = gpu::load_model(file.path());
  std::shared_ptr<fake_backend> device = std::make_shared<fake_backend>(16, 64, 36, 125);
  std::vector<std::string> fatal;
};

struct question {
  std::uint64_t tag = 0;
  core::generation_request request;
};
inline question ask_for(std::uint64_t tag, std::vector<token_id> prompt, std::uint32_t max_tokens) {
  question out{tag, {}};
  out.request.prompt = std::move(prompt);
  out.request.decode.max_tokens = max_tokens;
  return out;
}

/// A runtime in an actor system of its own, for programs without CAF.
struct engine_world : host_world {
  runtime engine{config, model, device, watcher, on_fatal()};
};

inline core::generation_request prompt(std::vector<token_id> tokens, std::uint32_t max_tokens) {
  return ask_for(0, std::move(tokens), max_tokens).request;
}

/// What a reader got: 'a' accepted, 'd' delta, 'e' end, in order.
struct reader_log {
  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(300), condition);
  }
  bool wait_ends(std::size_t count) {
    return wait([&] { return ends.size() >= count; });
  }
  template <class Change>
  void change(Change apply) {
    const std::lock_guard lock(mutex);
    apply();
    changed.notify_all();
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::string order, text;
  std::set<std::uint64_t> tags;
  core::request_id id;
  std::vector<core::generation_end> ends;
};

/// Sends its questions, records the answers, and quits with the last end.
inline protocol::reader_actor::behavior_type reader(protocol::reader_actor::pointer self,
                                                    const protocol::engine_actor& engine,
                                                    const std::vector<question>& questions,
                                                    reader_log* log) {
  for (const auto& one : questions)
    self->send(engine,
               protocol::submit_request{one.tag, one.request, protocol::reader_actor{self}});
  return {
      [=](const protocol::request_accepted& it) {
        log->change([&] { log->order += 'a', log->id = it.id, log->tags.insert(it.tag); });
      },
      [=](const protocol::text_arrived& it) {
        log->change(
            [&] { log->order += 'd', log->text += it.delta.text, log->tags.insert(it.tag); });
      },
      [=,
       left = std::make_shared<std::size_t>(questions.size())](const protocol::request_ended& it) {
        log->change(
            [&] { log->order += 'e', log->text += it.end.last.text, log->ends.push_back(it.end); });
        if (--*left == 0) self->quit();
      },
  };
}

/// Takes its first text and never acknowledges it.
inline protocol::reader_actor::behavior_type holding_reader(protocol::reader_actor::pointer self,
                                                            const protocol::engine_actor& engine,
                                                            const question& asked,
                                                            reader_log* log) {
  self->send(engine,
             protocol::submit_request{asked.tag, asked.request, protocol::reader_actor{self}});
  const auto held = std::make_shared<caf::response_promise>();
  return {
      [=](const protocol::request_accepted&) { log->change([&] { log->order += 'a'; }); },
      [=](const protocol::text_arrived&) -> caf::result<void> {
        auto promise = self->make_response_promise();
        *held = promise;
        log->change([&] { log->order += 'd'; });
        return caf::delegated<void>{};
      },
      [=](const protocol::request_ended& it) {
        log->change([&] { log->order += 'e', log->ends.push_back(it.end); });
      },
  };
}

}  // namespace troupe::test
