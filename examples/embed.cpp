// Troupe inside the actor system of another program: a host actor asks for two answers, reads their
// tokens as messages, cancels one of them in mid-sentence and then finds the KV pool whole.   embed
// MODEL.gguf
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <cstdio>
#include <exception>
#include <future>
#include <map>
#include <memory>

#include "actors/embedding/caf_system.hpp"
#include "actors/embedding/pool_watch.hpp"
#include "gpu/make_backend.hpp"

using namespace troupe::protocol;

namespace {

using answers = std::map<std::uint64_t, request_ended>;

troupe::core::generation_request question(const char* text) {
  troupe::core::generation_request request;
  request.prompt = std::vector<troupe::core::chat_message>{{"user", text}};
  request.decode.max_tokens = 200;
  request.decode.sampling.temperature = 0;
  return request;
}

/// Reads both answers, leaves the second after five pieces, and hands over how they ended.
reader_actor::behavior_type outer(reader_actor::pointer self, const engine_actor& engine,
                                  const std::shared_ptr<std::promise<answers>>& done) {
  self->send(engine, submit_request{1, question("Name three rivers."), reader_actor{self}});
  self->send(engine,
             submit_request{2, question("Tell me a long story about a fox."), reader_actor{self}});
  const auto ended = std::make_shared<answers>();
  const auto pieces = std::make_shared<int>(0);
  return {
      [](const request_accepted& it) {
        std::printf("request %d: %u prompt tokens\n", static_cast<int>(it.tag), it.prompt_tokens);
      },
      [=](const text_arrived& it) {
        if (it.tag == 1) std::printf("%s", it.delta.text.c_str());
        if (it.tag == 2 && ++*pieces == 5) self->send(engine, cancel_request{it.id});
      },
      [=](const request_ended& it) {
        if (it.tag == 1) std::printf("%s\n", it.end.last.text.c_str());
        ended->emplace(it.tag, it);
        if (ended->size() < 2) return;
        done->set_value(*ended);
        self->quit();
      },
  };
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) return std::fprintf(stderr, "usage: embed MODEL.gguf\n"), 2;
  caf::actor_system_config host;  // the host's own: its modules, its message types, ...
  troupe::add_to(host);           // ... and ours
  caf::actor_system system(host);

  troupe::runtime_config config;
  config.model = argv[1];
  const auto model = troupe::gpu::load_model(config.model);
  std::shared_ptr<troupe::gpu::backend> device =
      troupe::gpu::make_backend(model, {.num_blocks = 256});
  model->file.release_data();  // the device has all of it
  troupe::pool_watch pool;
  troupe::runtime engine(system, config, model, device, pool, [](const std::string& what) {
    std::fprintf(stderr, "engine failed: %s\n", what.c_str());
  });

  const auto done = std::make_shared<std::promise<answers>>();
  system.spawn(outer, troupe::actor_of(engine), done);
  const auto ended = done->get_future().get();
  for (const auto& [tag, it] : ended)
    std::printf("request %d ended: %s after %u tokens%s%s\n", static_cast<int>(tag),
                name_of(it.end.reason), it.end.usage.completion, it.end.message.empty() ? "" : ": ",
                it.end.message.c_str());

  const bool whole = pool.wait_whole(std::chrono::seconds(5)) && pool.violations().empty();
  const auto blocks = pool.pool();
  std::printf("pool: %d blocks, %d leased, %d cached: %s\n", static_cast<int>(blocks.total),
              static_cast<int>(blocks.used), static_cast<int>(blocks.cached),
              whole ? "whole" : "BLOCKS LOST");
  return whole && ended.at(2).end.reason == troupe::core::end_reason::cancelled ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "embed: %s\n", e.what());
  return 1;
}
