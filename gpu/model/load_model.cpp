#include "gpu/model/loaded_model.hpp"

namespace troupe::gpu {
namespace {

/// For a file without a template: the turns of ChatML, which the default model's own template uses
/// too.
constexpr std::string_view chatml =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' "
    "+ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

std::string token_text(const gguf_file& file, const tokenizer& vocabulary, const char* key) {
  const auto id = file.find_uint(key);
  return id ? vocabulary.bytes(static_cast<token_id>(*id)) : std::string{};
}

chat_template load_template(const gguf_file& file, const tokenizer& vocabulary) {
  const auto* source = file.find_string("tokenizer.chat_template");
  try {
    return chat_template::compile(source != nullptr ? std::string_view(*source) : chatml,
                                  token_text(file, vocabulary, "tokenizer.ggml.bos_token_id"),
                                  token_text(file, vocabulary, "tokenizer.ggml.eos_token_id"));
  } catch (const template_error& error) {
    file.fail(std::string("tokenizer.chat_template: ") + error.what());
  }
}

}  // namespace

std::shared_ptr<loaded_model> load_model(const std::string& path) {
  auto file = gguf_file::open(path);
  // The cheapest check first, and the one whose refusal explains the others: a family that cannot
  // be served often has a tokenizer that cannot either.
  auto config = model_config::from_gguf(file);
  auto vocabulary = tokenizer::from_gguf(file);
  auto chat = load_template(file, vocabulary);
  return std::make_shared<loaded_model>(
      loaded_model{std::move(file), std::move(config), std::move(vocabulary), std::move(chat)});
}

}  // namespace troupe::gpu
