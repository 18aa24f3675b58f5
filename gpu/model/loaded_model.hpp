// A model file, opened and checked: what sessions (tokenizer, template) and devices (weights) are
// made from. Owned together by all of them; never changed once it is shared.
#pragma once
#include <memory>
#include <string>

#include "gpu/model/chat_template.hpp"
#include "gpu/model/gguf/gguf.hpp"
#include "gpu/model/model_config.hpp"
#include "gpu/model/text/tokenizer.hpp"

namespace troupe::gpu {

/// The tokenizer and template are ready, the weights are still only mapped. Immutable once it is
/// shared with sessions and backend, except that its owner gives the mapping up
/// (file.release_data()) when it has made its backends: none of them reads the file again, and one
/// made later is refused with a model_error.
struct loaded_model {
  gguf_file file;
  model_config config;
  tokenizer vocabulary;
  chat_template chat;
};

/// Throws model_error (one line: file, field, value).
std::shared_ptr<loaded_model> load_model(const std::string& path);

}  // namespace troupe::gpu
