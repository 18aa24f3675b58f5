// The numbers of a Llama-architecture model, read from a GGUF file and checked against each other
// and against the tensors' shapes.
#pragma once
#include <cstdint>
#include <string>

#include "gpu/model/gguf/gguf.hpp"

namespace troupe::gpu {

struct model_config {
  std::string name;  ///< general.name, or the file's stem
  std::uint32_t layers = 0;
  std::uint32_t width = 0;  ///< embedding length
  std::uint32_t ffn_width = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t vocab = 0;
  std::uint32_t context = 0;  ///< trained context length, in tokens
  float rope_base = 10000.0f;
  float norm_eps = 1e-5f;
  bool tied_embeddings = false;  ///< no output.weight: the head is token_embd.weight
  std::uint64_t file_bytes = 0;

  /// Reads, validates (non-zero dimensions, head_dim even, heads a multiple of kv_heads, every
  /// tensor present with the shape and a type the device knows, nothing unknown in the
  /// architecture). Throws model_error.
  static model_config from_gguf(const gguf_file&);
};

}  // namespace troupe::gpu
