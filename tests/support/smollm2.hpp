// The default model's vocabulary, read once. For tests that hold a tokenizer against its reference.
#pragma once
#include "gpu/model/text/tokenizer.hpp"
#include "tests/support/temporary_file.hpp"

namespace troupe::test {

inline const gpu::tokenizer& smollm2() {
  static const auto out = gpu::tokenizer::from_gguf(gpu::gguf_file::open(default_model_path()));
  return out;
}

}  // namespace troupe::test
