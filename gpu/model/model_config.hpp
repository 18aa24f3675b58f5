// The numbers of a model, read from a GGUF file by the row of its family (architecture.hpp) and
// checked against each other, against the tensors' shapes and against what devices compute.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "gpu/model/gguf/gguf.hpp"

namespace troupe::gpu {

struct architecture;
class ability_set;

struct model_config {
  const architecture* family = nullptr;  ///< its row; set by from_gguf
  std::string name;                      ///< general.name, or the file's stem
  std::uint32_t layers = 0;
  std::uint32_t width = 0;  ///< embedding length
  std::uint32_t ffn_width = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;  ///< attention.key_length, else width / heads
  std::uint32_t vocab = 0;
  std::uint32_t context = 0;  ///< trained context length, in tokens
  float rope_base = 10000.0f;
  float norm_eps = 1e-5f;
  bool tied_embeddings = false;  ///< no output.weight: the head is token_embd.weight
  std::uint64_t file_bytes = 0;

  /// Reads and checks: the family is known and a device with `computed` computes it, dimensions are
  /// possible, every tensor of the family is there with its shape, and none that would be left out.
  /// Throws model_error.
  static model_config from_gguf(const gguf_file&, const ability_set& computed,
                                std::span<const architecture> families);
  /// For what every device of this build computes, among all families.
  static model_config from_gguf(const gguf_file&);
};

}  // namespace troupe::gpu
