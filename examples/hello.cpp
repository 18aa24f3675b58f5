// One prompt, answered in this process: no network, no actor in sight.   hello MODEL.gguf
// [QUESTION]
#include <cstdio>
#include <exception>
#include <memory>

#include "actors/embedding/answer_future.hpp"
#include "actors/embedding/pool_watch.hpp"
#include "actors/runtime.hpp"
#include "gpu/make_backend.hpp"

int main(int argc, char** argv) try {
  if (argc < 2) return std::fprintf(stderr, "usage: hello MODEL.gguf [QUESTION]\n"), 2;
  troupe::runtime_config config;
  config.model = argv[1];
  const auto model = troupe::gpu::load_model(config.model);
  std::shared_ptr<troupe::gpu::backend> device =
      troupe::gpu::make_backend(model, {.num_blocks = 128});
  model->file.release_data();  // the device has all of it
  troupe::pool_watch pool;
  troupe::runtime engine(config, model, device, pool, [](const std::string& what) {
    std::fprintf(stderr, "engine failed: %s\n", what.c_str());
  });

  troupe::core::generation_request request;
  request.prompt =
      std::vector<troupe::core::chat_message>{{"user", argc > 2 ? argv[2] : "Name three rivers."}};
  request.decode.max_tokens = 40;
  request.decode.sampling.temperature = 0;
  const auto answer = troupe::ask(engine, request).get();

  std::printf("%s\n", answer.text.c_str());
  std::printf("%s, %u tokens\n", name_of(answer.end.reason), answer.end.usage.completion);
  if (!answer.end.message.empty()) std::fprintf(stderr, "hello: %s\n", answer.end.message.c_str());
  return answer.text.empty() ? 1 : 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "hello: %s\n", e.what());
  return 1;
}
