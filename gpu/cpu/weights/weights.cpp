#include "gpu/cpu/weights/weights.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "gpu/cpu/kernels/embedding.hpp"
#include "gpu/cpu/weights/pack_weights.hpp"
#include "gpu/cpu/weights/panel_cache.hpp"
#include "gpu/model/architecture.hpp"

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

/// Which member of a layer each matrix of a layer fills, in the order in which they lie in memory.
struct matrix_place {
  weight_slot slot;
  packed_matrix layer_weights::*member;
};
constexpr matrix_place matrix_places[] = {
    {weight_slot::q, &layer_weights::q},       {weight_slot::k, &layer_weights::k},
    {weight_slot::v, &layer_weights::v},       {weight_slot::attention_output, &layer_weights::o},
    {weight_slot::gate, &layer_weights::gate}, {weight_slot::up, &layer_weights::up},
    {weight_slot::down, &layer_weights::down}};

struct vector_place {
  weight_slot slot;
  const float* layer_weights::*member;
};
constexpr vector_place vector_places[] = {
    {weight_slot::attention_norm, &layer_weights::attention_norm},
    {weight_slot::ffn_norm, &layer_weights::ffn_norm}};

/// A norm: 32-bit floats as they are.
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
    layer_weights& layer = to.layers_[i];
    for (const model_tensor& wanted : layer_tensors(config, i)) {
      const gguf_tensor& tensor = tensor_of(file, wanted.name);
      const auto before = matrices.size() + vectors.size();
      for (const auto& place : matrix_places)
        if (place.slot == wanted.slot) matrices.push_back({&(layer.*place.member), &tensor});
      for (const auto& place : vector_places)
        if (place.slot == wanted.slot) vectors.push_back({&(layer.*place.member), &tensor});
      // The check of the file lets only such families through; a weight left out would be silent.
      if (matrices.size() + vectors.size() == before)
        file.fail("tensor " + wanted.name + ": the cpu device has no place for it");
    }
  }
  // The head is read in every step, so it follows the layers; an embedding of its own lies last.
  const gguf_tensor *embedding = nullptr, *head = nullptr;
  for (const model_tensor& wanted : model_tensors(config)) {
    if (wanted.optional && file.find_tensor(wanted.name) == nullptr) continue;
    const gguf_tensor& tensor = tensor_of(file, wanted.name);
    if (wanted.slot == weight_slot::token_embedding) embedding = &tensor;
    if (wanted.slot == weight_slot::head) head = &tensor;
    if (wanted.slot == weight_slot::output_norm) vectors.push_back({&to.output_norm_, &tensor});
  }
  matrices.push_back({&to.head_, config.tied_embeddings ? embedding : head});
  if (!config.tied_embeddings) matrices.push_back({&to.embedding_, embedding});

  for (const pending_vector& v : vectors) bytes += vector_bytes(v.tensor->shape[0]);
  for (const pending_matrix& m : matrices) {
    *m.matrix = packed_shape(m.tensor->type, static_cast<std::uint32_t>(m.tensor->rows()),
                             static_cast<std::uint32_t>(m.tensor->shape[0]));
    bytes += matrix_bytes(*m.matrix);
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
    *v.vector = reinterpret_cast<const float*>(region_.take(padded_floats(v.tensor->shape[0]) * 4));
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
  // 1,024 rows: enough work to be worth a claim, little enough that all threads end together.
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
    layout.insert(layout.end(), {offset_of(*v.vector), padded_floats(v.tensor->shape[0])});
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
  // Panels are padded with zero weights that packing never writes.
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
