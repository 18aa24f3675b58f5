#include "tests/support/float_device.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "gpu/host_limits.hpp"
#include "gpu/model/architecture.hpp"

namespace troupe::test {
namespace {

using gpu::sequence_slice;

struct checked_batch final : gpu::planned_step {
  gpu::step_batch batch;
};

/// Host memory that its device can be asked about, as page-locked memory would be.
class counted_buffer final : public gpu::host_buffer {
 public:
  counted_buffer(std::size_t bytes, std::shared_ptr<std::atomic<std::uint64_t>> total)
      : bytes_(bytes), total_(std::move(total)) {
    *total_ += bytes;
  }
  ~counted_buffer() override { *total_ -= bytes_.size(); }
  std::byte* data() const override { return const_cast<std::byte*>(bytes_.data()); }
  std::size_t size() const override { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
  std::shared_ptr<std::atomic<std::uint64_t>> total_;
};

float from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const float fraction = static_cast<float>(bits & 1023) / 1024.0f;
  const float size =
      exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1.0f + fraction, exponent - 15);
  return bits & 0x8000 ? -size : size;
}

std::vector<float> floats_of(const gpu::gguf_file& file, const gpu::gguf_tensor& tensor) {
  std::vector<float> out;
  if (tensor.type == gpu::tensor_type::f32) {
    out.resize(tensor.data.size() / sizeof(float));
    std::memcpy(out.data(), tensor.data.data(), out.size() * sizeof(float));
  } else if (tensor.type == gpu::tensor_type::f16) {
    std::vector<std::uint16_t> bits(tensor.data.size() / sizeof(std::uint16_t));
    std::memcpy(bits.data(), tensor.data.data(), bits.size() * sizeof(std::uint16_t));
    for (const auto half : bits) out.push_back(from_half(half));
  } else {
    file.fail("tensor \"" + tensor.name + "\": type is " + gpu::name_of(tensor.type) +
              ", the float device has F32 and F16");
  }
  return out;
}

float dot(const float* a, const float* b, std::size_t count) {
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

std::vector<float> normalized(const std::vector<float>& x, const std::vector<float>& weight,
                              float eps) {
  const float mean = dot(x.data(), x.data(), x.size()) / static_cast<float>(x.size());
  const float scale = 1.0f / std::sqrt(mean + eps);
  std::vector<float> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[i] * scale * weight[i];
  return out;
}

/// Interleaved pairs, as in Llama's GGUF files.
void rotate(float* head, std::uint32_t dim, std::uint32_t position, float base) {
  for (std::uint32_t d = 0; d < dim; d += 2) {
    const float angle = static_cast<float>(position) *
                        std::pow(base, -static_cast<float>(d) / static_cast<float>(dim));
    const float c = std::cos(angle), s = std::sin(angle), x = head[d], y = head[d + 1];
    head[d] = x * c - y * s;
    head[d + 1] = x * s + y * c;
  }
}

/// A number in [0, 1) from the seed and the position of the drawn token, never from the step.
double drawn(std::uint64_t seed, std::uint64_t position) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15ull + position + 1;
  for (int i = 0; i < 2; ++i) x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9ull;
  return static_cast<double>(x >> 11) * 0x1p-53;
}

double log_total(const std::vector<float>& logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const float x : logits) total += std::exp(x - most);
  return most + std::log(total);
}

scored_token scored(const std::vector<float>& logits, token_id token) {
  return {
      token, static_cast<float>(logits[static_cast<std::size_t>(token)] - log_total(logits)), {}};
}

token_id pick(std::vector<float> logits, const sequence_slice& slice, std::uint64_t seed) {
  for (const auto token : slice.suppressed)
    logits[static_cast<std::size_t>(token)] = -std::numeric_limits<float>::infinity();
  const auto& sampling = slice.decode->sampling;
  if (sampling.temperature <= 0)
    return static_cast<token_id>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  for (float& x : logits) x /= sampling.temperature;
  const double total = log_total(logits);
  double left = drawn(seed, slice.start + slice.tokens.size());
  token_id last = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double share = std::exp(logits[i] - total);
    if (share > 0) last = static_cast<token_id>(i);
    if ((left -= share) < 0) break;
  }
  return last;
}

gpu::kv_format format_of(const gpu::model_config& model, const gpu::backend_options& options,
                         std::uint32_t window) {
  auto format = gpu::kv_format_of(float_device::kind(), model, options);
  if (window == 0) return format;
  std::vector<std::uint32_t> lower, upper;
  for (std::uint32_t i = 0; i < model.layers; ++i)
    (i < model.layers / 2 ? lower : upper).push_back(i);
  format = gpu::grouped_format(format.types, {lower, upper}, model.kv_heads, model.head_dim,
                               options.block_size, options.num_blocks);
  format.groups[1].window = window;
  return format;
}

}  // namespace

gpu::device_kind float_device::kind() {
  return {.name = "float",
          .options = {},
          .kv_dtypes = {gpu::kv_f32},
          .present = [] { return true; },
          .weight_bytes =
              [](std::span<const gpu::gguf_tensor> tensors) {
                std::uint64_t bytes = 0;
                for (const auto& tensor : tensors)
                  bytes += tensor.rows() * tensor.shape[0] * sizeof(float);
                return bytes;
              },
          .available_memory = [] { return gpu::available_memory(); },
          .threads_needed = [](const gpu::backend_options&) { return 1u; },  // one a copy
          .make = [](std::shared_ptr<const gpu::loaded_model> model,
                     const gpu::backend_options& options) -> std::unique_ptr<gpu::backend> {
            return std::make_unique<float_device>(std::move(model), options);
          }};
}

gpu::device_kind float_device::windowed_kind() {
  auto row = kind();
  row.name = "windowed";
  row.make = [](std::shared_ptr<const gpu::loaded_model> model,
                const gpu::backend_options& options) -> std::unique_ptr<gpu::backend> {
    return std::make_unique<float_device>(std::move(model), options, windowed_tokens);
  };
  return row;
}

float_device::float_device(std::shared_ptr<const gpu::loaded_model> model,
                           const gpu::backend_options& options, std::uint32_t window)
    : model_(std::move(model)) {
  const auto& config = model_->config;
  info_.name = window > 0 ? "windowed" : "float";
  info_.isa = "none";
  info_.threads = 1;
  info_.kv = format_of(config, options, window);
  group_of_layer_.resize(config.layers);
  std::size_t bytes = 0;
  for (std::size_t g = 0; g < info_.kv.groups.size(); ++g) {
    const auto& group = info_.kv.groups[g];
    for (const auto layer : group.layers) group_of_layer_.at(layer) = g;
    group_begins_.push_back(bytes / sizeof(float));
    bytes += group.blocks * info_.kv.block_bytes(g);
  }
  // NaN until written, so that a block read before it is written shows in the answer.
  pool_.assign(bytes / sizeof(float), std::numeric_limits<float>::quiet_NaN());

  using gpu::weight_slot;
  const auto take = [&](const std::vector<gpu::model_tensor>& tensors, weight_slot slot) {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const auto& one) { return one.slot == slot; });
    return read(found->name);
  };
  const auto whole = gpu::model_tensors(config);
  embedding_ = take(whole, weight_slot::token_embedding);
  head_ = config.tied_embeddings ? embedding_ : take(whole, weight_slot::head);
  output_norm_ = take(whole, weight_slot::output_norm).values;
  for (std::uint32_t i = 0; i < config.layers; ++i) {
    const auto layer = gpu::layer_tensors(config, i);
    const auto of = [&](weight_slot slot) { return take(layer, slot); };
    layers_.push_back({of(weight_slot::attention_norm).values, of(weight_slot::ffn_norm).values,
                       of(weight_slot::q), of(weight_slot::k), of(weight_slot::v),
                       of(weight_slot::attention_output), of(weight_slot::gate),
                       of(weight_slot::up), of(weight_slot::down)});
  }
  info_.weight_bytes = kind().weight_bytes(model_->file.tensors());
}

float_device::~float_device() {
  for (auto& one : copies_) one.join();
}

float_device::matrix float_device::read(const std::string& name) const {
  const auto* tensor = model_->file.find_tensor(name);
  if (tensor == nullptr || tensor->data.empty())
    model_->file.fail("tensor \"" + name + "\": not there, or its data was released");
  return {floats_of(model_->file, *tensor), static_cast<std::uint32_t>(tensor->rows()),
          static_cast<std::uint32_t>(tensor->shape[0])};
}

std::unique_ptr<gpu::planned_step> float_device::plan(gpu::step_batch batch) {
  auto out = std::make_unique<checked_batch>();
  for (const auto& slice : batch.slices)
    if (slice.decode->sampling.needs_history())
      throw gpu::batch_error("float device: penalties are not computed");
  out->batch = std::move(batch);
  return out;
}

gpu::step_result float_device::run(gpu::planned_step& planned) {
  const auto& batch = dynamic_cast<checked_batch&>(planned).batch;
  const auto block = [&](std::uint32_t id) {
    const auto g = info_.kv.group_of_block(id);
    return pool_.data() + group_begins_.at(g) +
           (id - info_.kv.groups[g].first_block) * info_.kv.block_bytes(g) / sizeof(float);
  };
  for (const auto& slice : batch.slices)
    for (const auto [from, to] : slice.copies)
      std::memcpy(block(to), block(from), info_.kv.bytes_of_block(to));
  gpu::step_result result;
  result.step = batch.step;
  result.elapsed_us = 100;
  for (const auto& slice : batch.slices) {
    gpu::slice_result out;
    out.key = slice.key;
    std::vector<float> row;
    for (std::size_t i = 0; i < slice.tokens.size(); ++i) {
      row = logits(slice, slice.tokens[i], slice.start + static_cast<std::uint32_t>(i));
      out.bad_logits = out.bad_logits || std::isnan(row[0]);
      if (i < slice.score_targets.size() && slice.score_targets[i] >= 0)
        out.scores.push_back(scored(row, slice.score_targets[i]));
    }
    if (slice.sample && !out.bad_logits) {
      out.sampled = scored(row, pick(row, slice, slice.decode->sampling.seed));
      for (const auto& tail : slice.tails)
        out.tails.push_back({tail.key, scored(row, pick(row, slice, tail.seed))});
    }
    result.slices.push_back(std::move(out));
  }
  return result;
}

/// K or V of one layer, head and position: head_dim floats, [token][dim] for both.
float* float_device::place(const sequence_slice& slice, std::uint32_t layer, std::uint32_t position,
                           bool value, std::uint32_t head) {
  const auto& kv = info_.kv;
  const auto group = group_of_layer_[layer];
  const auto block = slice.blocks[position / kv.block_size * kv.groups.size() + group];
  if (kv.group_of_block(block) != group)
    throw gpu::batch_error("float device: layer " + std::to_string(layer) + " looks at position " +
                           std::to_string(position) + " in block " + std::to_string(block) +
                           ", which its group does not have");
  const auto bytes = (block - kv.groups[group].first_block) * kv.block_bytes(group) +
                     kv.layer_offset(layer) + (value ? kv.value_offset(layer) : 0) +
                     head * kv.head_bytes(value ? kv.types.v : kv.types.k);
  return pool_.data() + group_begins_[group] + bytes / sizeof(float) +
         std::size_t{position % kv.block_size} * kv.head_dim;
}

void float_device::attend(const sequence_slice& slice, std::uint32_t layer, std::uint32_t position,
                          std::vector<float>& q, std::vector<float>& out) {
  const auto& config = model_->config;
  const auto dim = config.head_dim;
  const auto window = info_.kv.groups[group_of_layer_[layer]].window;
  const auto first = window > 0 && position + 1 > window ? position + 1 - window : 0;
  std::vector<float> weights(position + 1 - first);
  for (std::uint32_t h = 0; h < config.heads; ++h) {
    const auto kv_head = h / (config.heads / config.kv_heads);
    float* query = q.data() + std::size_t{h} * dim;
    rotate(query, dim, position, config.rope_base);
    for (std::uint32_t p = first; p <= position; ++p)
      weights[p - first] = dot(query, place(slice, layer, p, false, kv_head), dim) /
                           std::sqrt(static_cast<float>(dim));
    const double total = log_total(weights);
    float* sum = out.data() + std::size_t{h} * dim;
    std::fill_n(sum, dim, 0.0f);
    for (std::uint32_t p = first; p <= position; ++p) {
      const auto weight = static_cast<float>(std::exp(weights[p - first] - total));
      const float* value = place(slice, layer, p, true, kv_head);
      for (std::uint32_t d = 0; d < dim; ++d) sum[d] += weight * value[d];
    }
  }
}

std::vector<float> float_device::logits(const sequence_slice& slice, token_id token,
                                        std::uint32_t position) {
  const auto& config = model_->config;
  const auto times = [](const matrix& m, const std::vector<float>& x) {
    std::vector<float> out(m.rows);
    for (std::uint32_t r = 0; r < m.rows; ++r)
      out[r] = dot(m.values.data() + std::size_t{r} * m.cols, x.data(), m.cols);
    return out;
  };
  const auto add = [](std::vector<float>& x, const std::vector<float>& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  };
  const auto from = embedding_.values.begin() + std::ptrdiff_t{token} * config.width;
  std::vector<float> x(from, from + config.width);
  for (std::uint32_t i = 0; i < config.layers; ++i) {
    const layer_weights& w = layers_[i];
    auto in = normalized(x, w.attention_norm, config.norm_eps);
    auto q = times(w.q, in), k = times(w.k, in), attended = q;
    const auto v = times(w.v, in);
    for (std::uint32_t h = 0; h < config.kv_heads; ++h) {
      const auto at = std::size_t{h} * config.head_dim;
      rotate(k.data() + at, config.head_dim, position, config.rope_base);
      std::copy_n(k.data() + at, config.head_dim, place(slice, i, position, false, h));
      std::copy_n(v.data() + at, config.head_dim, place(slice, i, position, true, h));
    }
    attend(slice, i, position, q, attended);
    add(x, times(w.o, attended));
    in = normalized(x, w.ffn_norm, config.norm_eps);
    auto gate = times(w.gate, in);
    const auto up = times(w.up, in);
    for (std::size_t c = 0; c < gate.size(); ++c)
      gate[c] = gate[c] / (1.0f + std::exp(-gate[c])) * up[c];
    add(x, times(w.down, gate));
  }
  return times(head_, normalized(x, output_norm_, config.norm_eps));
}

void float_device::copy(gpu::block_copy ask, std::function<void(bool)> done) {
  if (ask.host.size() != ask.blocks.size())
    throw gpu::batch_error("copy: host places and blocks differ");
  std::vector<std::byte*> places;
  for (std::size_t i = 0; i < ask.blocks.size(); ++i) {
    const auto g = info_.kv.group_of_block(ask.blocks[i]);
    if (g == info_.kv.groups.size() || ask.host[i].size() != info_.kv.block_bytes(g))
      throw gpu::batch_error("copy: block or host size does not fit");
    places.push_back(reinterpret_cast<std::byte*>(pool_.data() + group_begins_[g]) +
                     (ask.blocks[i] - info_.kv.groups[g].first_block) * info_.kv.block_bytes(g));
  }
  const std::lock_guard lock(mutex_);
  copies_.emplace_back([ask = std::move(ask), places = std::move(places), done = std::move(done)] {
    const bool out = ask.towards == gpu::block_copy::direction::to_host;
    for (std::size_t i = 0; i < places.size(); ++i)
      std::memcpy(out ? ask.host[i].data() : places[i], out ? places[i] : ask.host[i].data(),
                  ask.host[i].size());
    done(true);
  });
}

std::unique_ptr<gpu::host_buffer> float_device::make_host_buffer(std::size_t bytes) {
  return std::make_unique<counted_buffer>(bytes, host_bytes_);
}

}  // namespace troupe::test
