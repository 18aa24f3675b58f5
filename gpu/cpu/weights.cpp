#include "gpu/cpu/weights.hpp"

#include <algorithm>
#include <string>

#include "gpu/cpu/pack_weights.hpp"

namespace troupe::gpu {

namespace {

const gguf_tensor& tensor_of(const gguf_file& file, const std::string& name) {
  const gguf_tensor* tensor = file.find_tensor(name);
  if (!tensor) file.fail("tensor " + name + ": missing");
  return *tensor;
}

struct pending_matrix {
  packed_matrix* matrix;
  const gguf_tensor* tensor;
};

struct pending_vector {
  const float** vector;
  const gguf_tensor* tensor;
};

struct chunk {
  pending_matrix source;
  std::byte* to;
  std::uint32_t begin, end;  // panels
};

std::size_t padded_floats(const gguf_tensor& t) {
  return (t.shape[0] + 31) / 32 * 32;
}

void read_vector(const gguf_tensor& t, float* out) {
  embedding_row({t.type, t.data.data(), static_cast<std::uint32_t>(t.shape[0]), 0, out});
}

}  // namespace

model_weights::model_weights(const gguf_file& file, const model_config& config, worker_pool& pool)
    : layers_(config.layers) {
  std::vector<pending_matrix> matrices;
  std::vector<pending_vector> vectors;
  for (std::uint32_t i = 0; i < config.layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    const auto at = [&](const char* name) { return &tensor_of(file, prefix + name + ".weight"); };
    layer_weights& layer = layers_[i];
    matrices.insert(matrices.end(), {{&layer.q, at("attn_q")},
                                     {&layer.k, at("attn_k")},
                                     {&layer.v, at("attn_v")},
                                     {&layer.o, at("attn_output")},
                                     {&layer.gate, at("ffn_gate")},
                                     {&layer.up, at("ffn_up")},
                                     {&layer.down, at("ffn_down")}});
    vectors.push_back({&layer.attention_norm, at("attn_norm")});
    vectors.push_back({&layer.ffn_norm, at("ffn_norm")});
  }
  const gguf_tensor& embedding = tensor_of(file, "token_embd.weight");
  matrices.push_back(
      {&head_, config.tied_embeddings ? &embedding : &tensor_of(file, "output.weight")});
  vectors.push_back({&output_norm_, &tensor_of(file, "output_norm.weight")});
  embedding_ = {embedding.type, embedding.data.data(), config.width, 0, nullptr};

  std::size_t bytes = 0;
  for (const pending_vector& v : vectors) bytes += padded_floats(*v.tensor) * 4;
  for (const pending_matrix& m : matrices) {
    *m.matrix = packed_shape(m.tensor->type, static_cast<std::uint32_t>(m.tensor->rows()),
                             static_cast<std::uint32_t>(m.tensor->shape[0]));
    bytes += (packed_bytes(*m.matrix) + 63) / 64 * 64;
  }
  region_ = memory_region(bytes);
  for (const pending_vector& v : vectors) {
    float* to = reinterpret_cast<float*>(region_.take(padded_floats(*v.tensor) * 4));
    read_vector(*v.tensor, to);
    *v.vector = to;
  }
  constexpr std::uint32_t chunk_panels = 64;
  std::vector<chunk> chunks;
  for (const pending_matrix& pending : matrices) {
    packed_matrix& m = *pending.matrix;
    std::byte* to = region_.take(packed_bytes(m));
    m.data = to;
    for (std::uint32_t p = 0; p < m.panels; p += chunk_panels) {
      chunks.push_back({pending, to, p, std::min(m.panels, p + chunk_panels)});
    }
  }
  pool.run(static_cast<std::uint32_t>(chunks.size()), [&](std::uint32_t i) {
    const chunk& c = chunks[i];
    pack_panels(*c.source.matrix, c.source.tensor->type, c.source.tensor->data.data(), c.begin,
                c.end, c.to);
  });
}

void model_weights::embed(std::uint32_t token, float* out) const {
  embedding_params p = embedding_;
  p.row = token;
  p.out = out;
  embedding_row(p);
}

}  // namespace troupe::gpu
