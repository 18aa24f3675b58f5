#include "gpu/cpu/weights/weights.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "gpu/cpu/kernels/embedding.hpp"
#include "gpu/cpu/weights/pack_weights.hpp"
#include "gpu/cpu/weights/panel_cache.hpp"

namespace troupe::gpu {

namespace {

const gguf_tensor& tensor_of(const gguf_file& file, const std::string& name) {
  const gguf_tensor* tensor = file.find_tensor(name);
  if (!tensor) file.fail("tensor " + name + ": missing");
  if (tensor->data.empty()) {
    file.fail("tensor " + name +
              ": its data was released after an earlier load; load the file again");
  }
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

std::size_t padded_floats(const gguf_tensor& t) {
  return (t.shape[0] + 31) / 32 * 32;
}

void read_vector(const gguf_tensor& t, float* out) {
  embedding_row({t.type, t.data.data(), static_cast<std::uint32_t>(t.shape[0]), 0, out});
}

}  // namespace

/// Where the weights come from and, in the same order, where they go.
struct model_weights::source {
  std::vector<pending_vector> vectors;
  std::vector<pending_matrix> matrices;
  std::size_t bytes = 0;

  source(const gguf_file& file, const model_config& config, model_weights& to);
};

model_weights::source::source(const gguf_file& file, const model_config& config,
                              model_weights& to) {
  for (std::uint32_t i = 0; i < config.layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    const auto at = [&](const char* name) { return &tensor_of(file, prefix + name + ".weight"); };
    layer_weights& layer = to.layers_[i];
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
  if (config.tied_embeddings) {
    matrices.push_back({&to.head_, &embedding});
  } else {
    matrices.push_back({&to.head_, &tensor_of(file, "output.weight")});
    matrices.push_back({&to.embedding_, &embedding});
  }
  vectors.push_back({&to.output_norm_, &tensor_of(file, "output_norm.weight")});

  for (const pending_vector& v : vectors) bytes += padded_floats(*v.tensor) * 4;
  for (const pending_matrix& m : matrices) {
    *m.matrix = packed_shape(m.tensor->type, static_cast<std::uint32_t>(m.tensor->rows()),
                             static_cast<std::uint32_t>(m.tensor->shape[0]));
    bytes += (packed_bytes(*m.matrix) + 63) / 64 * 64;
  }
}

model_weights::model_weights(const gguf_file& file, const model_config& config, worker_pool& pool,
                             bool cached)
    : layers_(config.layers) {
  const auto begin = std::chrono::steady_clock::now();
  const source from(file, config, *this);
  lay_out(from);
  if (cached) {
    use_cache(file, from, pool);
  } else {
    pack(file, from, pool);
  }
  report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::uint64_t model_weights::offset_of(const void* piece) const {
  return static_cast<std::uint64_t>(static_cast<const std::byte*>(piece) - region_.data());
}

/// Zeroed memory, and every piece's place in it.
void model_weights::lay_out(const source& from) {
  region_ = memory_region(from.bytes);
  for (const pending_vector& v : from.vectors) {
    *v.vector = reinterpret_cast<const float*>(region_.take(padded_floats(*v.tensor) * 4));
  }
  for (const pending_matrix& m : from.matrices) {
    m.matrix->data = region_.take(packed_bytes(*m.matrix));
  }
}

void model_weights::pack(const gguf_file& file, const source& from, worker_pool& pool) {
  const auto place = [&](const void* at) { return region_.data() + offset_of(at); };
  for (const pending_vector& v : from.vectors) {
    read_vector(*v.tensor, reinterpret_cast<float*>(place(*v.vector)));
  }
  struct chunk {
    const pending_matrix* source;
    std::uint32_t begin, end;  // panels
  };
  constexpr std::uint32_t chunk_panels = 64;
  std::vector<chunk> chunks;
  for (const pending_matrix& m : from.matrices) {
    for (std::uint32_t p = 0; p < m.matrix->panels; p += chunk_panels) {
      chunks.push_back({&m, p, std::min(m.matrix->panels, p + chunk_panels)});
    }
  }
  pool.run(static_cast<std::uint32_t>(chunks.size()), [&](std::uint32_t i) {
    const chunk& c = chunks[i];
    const packed_matrix& matrix = *c.source->matrix;
    const gguf_tensor& tensor = *c.source->tensor;
    pack_panels(matrix, tensor.type, tensor.data.data(), c.begin, c.end, place(matrix.data));
    // Else file and panels would both be resident for a while.
    const std::size_t row = file_row_bytes(tensor.type, matrix.cols);
    const std::size_t first = std::size_t{c.begin} * panel_rows * row;
    const std::size_t end =
        std::min<std::size_t>(matrix.rows, std::size_t{c.end} * panel_rows) * row;
    file.drop_pages(tensor.data.subspan(first, end - first));
  });
}

void model_weights::use_cache(const gguf_file& file, const source& from, worker_pool& pool) {
  std::vector<std::uint64_t> layout;
  for (const pending_vector& v : from.vectors) {
    layout.insert(layout.end(), {offset_of(*v.vector), padded_floats(*v.tensor)});
  }
  for (const pending_matrix& pending : from.matrices) {
    const packed_matrix& m = *pending.matrix;
    layout.insert(layout.end(),
                  {offset_of(m.data), std::uint64_t{static_cast<std::uint8_t>(m.kind)}, m.rows,
                   m.cols, m.panel_bytes, m.codes_offset});
  }
  panel_cache cache(file, layout, pool);
  report_.path = cache.path();
  const bool found = cache.exists();
  if (found) report_.why = cache.load({region_.data(), region_.size()});
  report_.panels = weight_report::panel_cache::used;
  if (found && report_.why.empty()) return;
  if (found) lay_out(from);  // packing needs zeroed memory, and the refused file left its own
  pack(file, from, pool);
  report_.panels =
      found ? weight_report::panel_cache::rebuilt : weight_report::panel_cache::written;
  if (const std::string unkept = cache.store(memory()); !unkept.empty()) {
    report_.panels = weight_report::panel_cache::unkept;
    report_.why += (found ? "; " : "") + unkept;
  }
}

void model_weights::embed(std::uint32_t token, float* out) const {
  packed_row(embedding_.data ? embedding_ : head_, token, out);
}

}  // namespace troupe::gpu
