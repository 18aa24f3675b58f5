#include "gpu/cpu/forward.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "gpu/cpu/kernels/kernel_costs.hpp"

namespace troupe::gpu {

namespace {

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// A chunk of a matmul: some panels (or output blocks) times some row tiles.
struct chunking {
  std::uint32_t width;    // panels of a chunk
  std::uint32_t height;   // rows of a chunk, a multiple of 8
  std::uint32_t stripes;  // chunks needed to cover the rows
};

constexpr std::uint32_t chunk_rows = 64;

/// One layer of this many, the first ones, takes the rest of its input's codes into q, k and v as
/// well: what is lost there passes through all that follows.
constexpr std::uint32_t layers_per_fine = 10;

/// Chunks are small enough to share evenly and to lose little when a core is taken away, and large
/// enough (a few microseconds) to pay for being claimed. `unit_blocks`: weight blocks of one panel;
/// costs are in cycles, roughly.
chunking cut(std::uint32_t units, std::uint32_t unit_blocks, std::uint32_t rows,
             std::uint32_t threads) {
  // Nothing to share: one chunk, and no row or panel is loaded twice.
  if (threads == 1) return {units, static_cast<std::uint32_t>(round_up(rows, tile_rows)), 1};
  chunking c;
  c.height =
      std::min<std::uint32_t>(static_cast<std::uint32_t>(round_up(rows, tile_rows)), chunk_rows);
  c.stripes = (rows + c.height - 1) / c.height;
  const std::uint64_t unit_cost =
      std::uint64_t{unit_blocks} * (16 + 8ull * std::min(rows, c.height));
  const std::uint64_t total = unit_cost * units * c.stripes;
  const std::uint64_t goal = std::clamp<std::uint64_t>(total / (threads * 6), 4000, 200000);
  c.width = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(goal / unit_cost, 1, units));
  return c;
}

}  // namespace

forward_pass::forward_pass(const model_config& config, const model_weights& weights,
                           const kv_pool& kv, const kernel_table& kernels, worker_pool& workers)
    : config_(config),
      weights_(weights),
      kv_(kv),
      kernels_(kernels),
      family_(kernels_of(*config.family, kernels)),
      workers_(workers) {
  hidden_stride_ = round_up(config.width, block_cols);
  q_stride_ = round_up(config.heads * config.head_dim, block_cols);
  kv_stride_ = round_up(config.kv_heads * config.head_dim, block_cols);
  logit_stride_ = round_up(config.vocab, block_cols);
  split_room_ = split_room(config, workers.threads());
  take_all();
  region_ = memory_region(counted_bytes_);
  // All of it now: a server's memory is what it is from the start.
  std::memset(region_.data(), 0, region_.size());
  take_all();

  // Angles in double: at 8,000 radians neighbouring floats are 0.0005 apart. Each
  // cosine stands twice and each sine with both signs, so that rotating a pair is one multiply-add.
  for (std::uint32_t position = 0; position < config.context; ++position) {
    for (std::uint32_t d = 0; d < config.head_dim; d += 2) {
      const double inverse = std::pow(static_cast<double>(config.rope_base),
                                      -static_cast<double>(d) / config.head_dim);
      const double angle = position * inverse;
      float* c = cosines_ + std::size_t{position} * config.head_dim + d;
      float* s = sines_ + std::size_t{position} * config.head_dim + d;
      c[0] = c[1] = static_cast<float>(std::cos(angle));
      s[1] = static_cast<float>(std::sin(angle));
      s[0] = -s[1];
    }
  }
}

forward_pass::family_kernels forward_pass::kernels_of(const architecture& family,
                                                      const kernel_table& kernels) {
  static_assert(computes == common_abilities, "what this device lacks is refused with the file");
  if (const auto missing = lacking(family.needs(), computes); !missing.empty()) {
    throw std::invalid_argument("architecture " + std::string(family.name) + " needs " + missing +
                                ", which the cpu device lacks");
  }
  family_kernels out{};
  if (family.norm == ability::rms_norm) out.norm = kernels.rms_norm;
  if (family.positions == ability::rope_pairs) out.positions = kernels.rope;
  if (family.activation == ability::silu_gate) out.activation = kernels.gate_up;
  return out;
}

/// Everything, as far as some matrix reads it.
void forward_pass::take_all() {
  hidden_ = take_floats(segment_rows * hidden_stride_);
  q_ = take_floats(segment_rows * q_stride_);
  k_ = take_floats(segment_rows * kv_stride_);
  v_ = take_floats(segment_rows * kv_stride_);
  logits_ = take_floats(logit_rows * logit_stride_);
  const std::size_t table = std::size_t{config_.context} * config_.head_dim;
  cosines_ = take_floats(table);
  sines_ = take_floats(table);
  split_sums_ = take_floats(split_room_);

  bool codes = is_quantized(weights_.head().kind), values = !codes;
  bool o_codes = false, o_values = true, down_codes = false, down_values = false;
  for (const layer_weights& layer : weights_.layers()) {
    for (const packed_matrix* m : {&layer.q, &layer.k, &layer.v, &layer.gate, &layer.up}) {
      (is_quantized(m->kind) ? codes : values) = true;
    }
    (is_quantized(layer.o.kind) ? o_codes : o_values) = true;
    (is_quantized(layer.down.kind) ? down_codes : down_values) = true;
  }
  normed_ = take_activation(segment_rows, config_.width, codes, values);
  fine_normed_ = normed_;
  const auto fine_layers = std::span(weights_.layers()).first(config_.layers / layers_per_fine);
  if (std::any_of(fine_layers.begin(), fine_layers.end(), [](const layer_weights& layer) {
        return is_quantized(layer.q.kind) || is_quantized(layer.k.kind) ||
               is_quantized(layer.v.kind);
      })) {
    const activation rest = take_activation(segment_rows, config_.width, true, false);
    fine_normed_.rest_codes = rest.codes;
    fine_normed_.rest_scales = rest.scales;
  }
  attended_ = take_activation(segment_rows, config_.heads * config_.head_dim, o_codes, o_values);
  gated_ = take_activation(segment_rows, config_.ffn_width, down_codes, down_values);
}

std::byte* forward_pass::take(std::size_t bytes) {
  if (region_.data() != nullptr) return region_.take(bytes);
  counted_bytes_ += round_up(bytes, 64);  // as the region does
  return nullptr;
}

float* forward_pass::take_floats(std::size_t count) {
  return reinterpret_cast<float*>(take(count * sizeof(float)));
}

activation forward_pass::take_activation(std::uint32_t rows, std::uint32_t cols, bool codes,
                                         bool values) {
  activation a;
  a.blocks = static_cast<std::uint32_t>(round_up(cols, block_cols) / block_cols);
  a.stride = std::size_t{a.blocks} * block_cols;
  const std::size_t tiles = round_up(rows, tile_rows) / tile_rows;
  if (codes) {
    a.codes = reinterpret_cast<std::int8_t*>(take(tiles * tile_rows * a.stride));
    a.scales = reinterpret_cast<tile_scales*>(take(tiles * a.blocks * sizeof(tile_scales)));
  }
  if (values) a.values = take_floats(tiles * tile_rows * a.stride);
  return a;
}

void forward_pass::run(const step_batch& batch, const step_segment& segment) {
  const std::uint32_t rows = static_cast<std::uint32_t>(segment.tokens.size());
  const std::uint32_t attention_width = config_.heads * config_.head_dim;
  embed(segment);
  lap(kernel_kind::embedding, [&] { return row_cost(rows, config_.width); });
  for (std::uint32_t i = 0; i < config_.layers; ++i) {
    const layer_weights& layer = weights_.layers()[i];
    const kv_view kv = kv_.layer(i);
    const activation& normed = i < config_.layers / layers_per_fine ? fine_normed_ : normed_;
    normalize(layer.attention_norm, nullptr, rows, normed);
    lap(kernel_kind::norm, [&] { return row_cost(rows, config_.width); });
    const std::array<product, 3> qkv{{{&layer.q, q_, q_stride_, nullptr},
                                      {&layer.k, k_, kv_stride_, nullptr},
                                      {&layer.v, v_, kv_stride_, nullptr}}};
    multiply(qkv, rows, normed);
    lap(kernel_kind::qkv, [&] {
      kernel_cost cost = matmul_cost({&layer.q, &layer.k, &layer.v}, rows);
      if (normed.rest_codes) cost.dots *= 2;
      return cost;
    });
    rotate_and_store(segment, kv);
    lap(kernel_kind::rope_store,
        [&] { return rope_cost(config_, rows, kv_.layer_token_bytes(i)); });
    attend(batch, segment, kv);
    lap(kernel_kind::attention,
        [&] { return attention_cost(config_, segment, kv_.layer_token_bytes(i)); });
    if (attended_.codes) {
      quantize_attention(rows);
      lap(kernel_kind::quantize, [&] { return row_cost(rows, attention_width); });
    }
    multiply(std::array<product, 1>{{{&layer.o, hidden_, hidden_stride_, hidden_}}}, rows,
             attended_);
    lap(kernel_kind::o, [&] { return matmul_cost({&layer.o}, rows); });
    normalize(layer.ffn_norm, nullptr, rows, normed_);
    lap(kernel_kind::norm, [&] { return row_cost(rows, config_.width); });
    gate_and_up(layer, rows);
    lap(kernel_kind::gate_up, [&] { return matmul_cost({&layer.gate, &layer.up}, rows); });
    multiply(std::array<product, 1>{{{&layer.down, hidden_, hidden_stride_, hidden_}}}, rows,
             gated_);
    lap(kernel_kind::down, [&] { return matmul_cost({&layer.down}, rows); });
  }
}

float* forward_pass::logits(std::span<const std::uint32_t> rows) {
  const std::uint32_t count = static_cast<std::uint32_t>(rows.size());
  normalize(weights_.output_norm(), rows.data(), count, normed_);
  lap(kernel_kind::norm, [&] { return row_cost(count, config_.width); });
  multiply(std::array<product, 1>{{{&weights_.head(), logits_, logit_stride_, nullptr}}}, count,
           normed_);
  lap(kernel_kind::head, [&] { return matmul_cost({&weights_.head()}, count); });
  return logits_;
}

void forward_pass::embed(const step_segment& segment) {
  const std::uint32_t rows = static_cast<std::uint32_t>(segment.tokens.size());
  workers_.run((rows + 15) / 16, [&](std::uint32_t chunk) {
    for (std::uint32_t row = chunk * 16; row < std::min(rows, chunk * 16 + 16); ++row) {
      float* out = hidden_ + row * hidden_stride_;
      weights_.embed(static_cast<std::uint32_t>(segment.tokens[row]), out);
      std::fill(out + config_.width, out + hidden_stride_, 0.0f);
    }
  });
}

void forward_pass::normalize(const float* weight, const std::uint32_t* rows, std::uint32_t count,
                             const activation& out) {
  constexpr std::uint32_t step = 8;
  workers_.run((count + step - 1) / step, [&](std::uint32_t chunk) {
    family_.norm({hidden_, hidden_stride_, rows, weight, config_.width, config_.norm_eps,
                  chunk * step, std::min(count, chunk * step + step), out});
  });
}

void forward_pass::multiply(std::span<const product> products, std::uint32_t rows,
                            const activation& in) {
  std::uint32_t panels = 0;
  for (const product& p : products) panels += p.weights->panels;
  const chunking c = cut(panels, products[0].weights->blocks, rows, workers_.threads());
  struct stripe {
    const product* what;
    std::uint32_t begin, end;
  };
  std::vector<stripe> stripes;
  for (const product& p : products) {
    for (std::uint32_t at = 0; at < p.weights->panels; at += c.width) {
      stripes.push_back({&p, at, std::min(p.weights->panels, at + c.width)});
    }
  }
  workers_.run(static_cast<std::uint32_t>(stripes.size()) * c.stripes, [&](std::uint32_t chunk) {
    const stripe& s = stripes[chunk / c.stripes];
    const std::uint32_t row = chunk % c.stripes * c.height;
    matmul_params p{
        s.what->weights, s.begin,        s.end,      row, std::min(rows, row + c.height), in,
        s.what->out,     s.what->stride, s.what->add};
    // The rest of the codes is a second product that adds to the first, with the same kernel.
    kernels_.matmul(p);
    if (!in.rest_codes || !is_quantized(s.what->weights->kind)) return;
    p.in = in.rest();
    p.add = p.out;
    kernels_.matmul(p);
  });
}

void forward_pass::rotate_and_store(const step_segment& segment, const kv_view& kv) {
  constexpr std::uint32_t step = 4;
  const std::uint32_t rows = static_cast<std::uint32_t>(segment.tokens.size());
  workers_.run((rows + step - 1) / step, [&](std::uint32_t chunk) {
    family_.positions({q_, q_stride_, k_, v_, kv_stride_, config_.heads, config_.kv_heads,
                       config_.head_dim, cosines_, sines_, segment.positions.data(),
                       segment.blocks.data(), kv, chunk * step,
                       std::min(rows, chunk * step + step)});
  });
}

/// Rows of a tile: many share each load of K and V, but every thread should get some tiles.
std::uint32_t forward_pass::attention_rows(std::uint32_t rows, std::uint32_t heads) const {
  const std::uint32_t least = std::max(1u, query_pass / heads);
  const std::uint32_t most = std::max(1u, query_tile / heads);
  // Four tiles a thread: fewer, and a thread that loses its core holds up all the others.
  const std::uint32_t fair = rows * (config_.heads / heads) / (4 * workers_.threads());
  return std::clamp(fair / least * least, std::min(least, most), most);
}

/// One KV head after another, so that its K and V stay in the cache; the costly last rows of a
/// prompt first, so that no thread begins a long tile when the others are done.
void forward_pass::attend(const step_batch& batch, const step_segment& segment, const kv_view& kv) {
  const std::uint32_t group = config_.heads / config_.kv_heads;
  const std::uint32_t heads = std::min(group, query_tile);
  const std::uint32_t tile =
      attention_rows(static_cast<std::uint32_t>(segment.tokens.size()), heads);
  const float scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim));
  tiles_.clear();
  for (const slice_run& run : segment.runs) {
    const std::uint32_t* blocks = batch.slices[run.slice].blocks.data();
    for (std::uint32_t h = 0; h < config_.heads;) {
      const std::uint32_t kv_head = h / group;
      const std::uint32_t count = std::min(heads, (kv_head + 1) * group - h);
      for (std::uint32_t end = run.rows; end > 0;) {
        const std::uint32_t rows = (end - 1) % tile + 1;
        end -= rows;
        tiles_.push_back({q_, q_stride_, attended_.values, attended_.stride, kv, blocks,
                          config_.head_dim, scale, run.row + end, rows, run.position + end, kv_head,
                          h, count});
      }
      h += count;
    }
  }
  cut_attention(tiles_, workers_.threads(), split_room_, pieces_, cut_tiles_);
  if (pieces_.empty()) {
    workers_.run(static_cast<std::uint32_t>(tiles_.size()),
                 [&](std::uint32_t i) { kernels_.attention(tiles_[i]); });
    return;
  }
  workers_.run(static_cast<std::uint32_t>(pieces_.size()),
               [&](std::uint32_t i) { attend_piece(pieces_[i]); });
}

void forward_pass::attend_piece(const attention_piece& piece) {
  const attention_params& tile = tiles_[piece.tile];
  if (piece.cut == attention_piece::whole) {
    kernels_.attention(tile);
    return;
  }
  cut_tile& cut = cut_tiles_[piece.cut];
  float* sums = split_sums_ + cut.sums;
  kernels_.attention_splits(tile, piece.begin, piece.end, sums);
  // The thread that ends the last piece sees the sums of all and merges them in index order, so the
  // bits do not depend on which thread that is.
  if (std::atomic_ref(cut.left).fetch_sub(1, std::memory_order_acq_rel) == 1) {
    kernels_.attention_merge(tile, sums);
  }
}

void forward_pass::quantize_attention(std::uint32_t rows) {
  constexpr std::uint32_t step = 8;
  activation out = attended_;
  out.values = nullptr;
  workers_.run((rows + step - 1) / step, [&](std::uint32_t chunk) {
    kernels_.quantize({attended_.values, attended_.stride, chunk * step,
                       std::min(rows, chunk * step + step), out});
  });
}

void forward_pass::gate_and_up(const layer_weights& layer, std::uint32_t rows) {
  const chunking c = cut(gated_.blocks, 4 * layer.gate.blocks, rows, workers_.threads());
  const std::uint32_t columns = (gated_.blocks + c.width - 1) / c.width;
  workers_.run(columns * c.stripes, [&](std::uint32_t chunk) {
    const std::uint32_t block = chunk / c.stripes * c.width;
    const std::uint32_t row = chunk % c.stripes * c.height;
    family_.activation({&layer.gate, &layer.up, block, std::min(gated_.blocks, block + c.width),
                        row, std::min(rows, row + c.height), normed_, gated_});
  });
}

}  // namespace troupe::gpu
