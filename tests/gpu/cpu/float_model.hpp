// A second, plain implementation of the forward pass for the tests: the file's weights as numbers
// (embedding_row, which weight_types_test.cpp checks against the format's own arithmetic), every
// sum in double, no codes, no blocks, no cache. With `device_formats` numbers are rounded where the
// device's formats round them (K and V to f16, the input of a quantized matrix to 8 bits), so that
// what is left of a difference is rounding to f32. Shares no code with the kernels. Slow; borrows
// the model.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "gpu/cpu/kernels/embedding.hpp"
#include "gpu/cpu/kernels/isa/half.hpp"
#include "gpu/model/loaded_model.hpp"

namespace troupe::test {

class float_model {
 public:
  using row = std::vector<double>;

  explicit float_model(const gpu::loaded_model& model, bool device_formats = false)
      : file_(model.file), config_(model.config), device_formats_(device_formats) {}

  /// The logits at `wanted` (ascending). The last layer is computed for these alone.
  std::vector<row> logits(const std::vector<token_id>& tokens,
                          const std::vector<std::uint32_t>& wanted) const {
    const matrix embedding = matrix_of("token_embd.weight");
    std::vector<row> hidden;
    for (const token_id token : tokens) {
      const auto at = embedding.values.begin() + token * static_cast<std::ptrdiff_t>(config_.width);
      hidden.emplace_back(at, at + config_.width);
    }
    for (std::uint32_t i = 0; i < config_.layers; ++i) {
      std::vector<std::uint32_t> positions = wanted;
      if (i + 1 < config_.layers) {
        positions.resize(tokens.size());
        for (std::uint32_t p = 0; p < positions.size(); ++p) positions[p] = p;
      }
      layer("blk." + std::to_string(i) + ".", positions, hidden);
    }
    const row norm = vector_of("output_norm.weight");
    const matrix head = config_.tied_embeddings ? embedding : matrix_of("output.weight");
    std::vector<row> out;
    for (const std::uint32_t p : wanted) out.push_back(times(head, normed(hidden[p], norm)));
    return out;
  }

 private:
  struct matrix {
    std::uint64_t rows = 0, cols = 0;
    bool quantized = false;
    std::vector<float> values;
  };

  matrix matrix_of(const std::string& name) const {
    const gpu::gguf_tensor& tensor = *file_.find_tensor(name);
    matrix m{tensor.rows(), tensor.shape[0], gpu::block_elements(tensor.type) > 1, {}};
    m.values.resize(m.rows * m.cols);
    for (std::uint64_t r = 0; r < m.rows; ++r) {
      gpu::embedding_row({tensor.type, tensor.data.data(), static_cast<std::uint32_t>(m.cols), r,
                          m.values.data() + r * m.cols});
    }
    return m;
  }

  row vector_of(const std::string& name) const {
    const matrix m = matrix_of(name);
    return {m.values.begin(), m.values.end()};
  }

  /// 8 bits for each 32 numbers: multiples of max / 127.
  static row eight_bits(row x) {
    for (std::size_t begin = 0; begin < x.size(); begin += 32) {
      double largest = 0.0;
      for (std::size_t i = begin; i < begin + 32; ++i) largest = std::max(largest, std::fabs(x[i]));
      if (largest == 0.0) continue;
      for (std::size_t i = begin; i < begin + 32; ++i)
        x[i] = std::nearbyint(x[i] / largest * 127.0) * largest / 127.0;
    }
    return x;
  }

  row times(const matrix& m, const row& exact) const {
    const row x = device_formats_ && m.quantized ? eight_bits(exact) : exact;
    row out(m.rows);
    for (std::uint64_t r = 0; r < m.rows; ++r) {
      for (std::uint64_t c = 0; c < m.cols; ++c) out[r] += m.values[r * m.cols + c] * x[c];
    }
    return out;
  }

  row normed(const row& x, const row& weight) const {
    double squares = 0.0;
    for (const double v : x) squares += v * v;
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) +
                                         static_cast<double>(config_.norm_eps));
    row out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[i] * scale * weight[i];
    return out;
  }

  /// Turns the pairs (2i, 2i + 1) of every head by position * base^(-2i / head_dim).
  void rotate(row& x, std::uint32_t position) const {
    for (std::size_t i = 0; i < x.size(); i += 2) {
      const double exponent = static_cast<double>(i % config_.head_dim) / config_.head_dim;
      const double angle = position * std::pow(static_cast<double>(config_.rope_base), -exponent);
      const double a = x[i], b = x[i + 1];
      x[i] = a * std::cos(angle) - b * std::sin(angle);
      x[i + 1] = b * std::cos(angle) + a * std::sin(angle);
    }
  }

  void round_to_half(row& x) const {
    if (!device_formats_) return;
    for (double& v : x) v = gpu::half_to_float(gpu::float_to_half(static_cast<float>(v)));
  }

  row attention(const row& q, const std::vector<row>& keys, const std::vector<row>& values,
                std::uint32_t position) const {
    const std::uint32_t dim = config_.head_dim, group = config_.heads / config_.kv_heads;
    row out(q.size());
    for (std::uint32_t h = 0; h < config_.heads; ++h) {
      const std::size_t at = h / group * dim;
      row score(position + 1);
      double top = -1e300, total = 0.0;
      for (std::uint32_t p = 0; p <= position; ++p) {
        for (std::uint32_t d = 0; d < dim; ++d) score[p] += q[h * dim + d] * keys[p][at + d];
        score[p] /= std::sqrt(static_cast<double>(dim));
        top = std::max(top, score[p]);
      }
      for (double& s : score) total += s = std::exp(s - top);
      for (std::uint32_t p = 0; p <= position; ++p) {
        for (std::uint32_t d = 0; d < dim; ++d)
          out[h * dim + d] += score[p] / total * values[p][at + d];
      }
    }
    return out;
  }

  void layer(const std::string& prefix, const std::vector<std::uint32_t>& positions,
             std::vector<row>& hidden) const {
    const auto m = [&](const char* name) { return matrix_of(prefix + name + ".weight"); };
    const row before = vector_of(prefix + "attn_norm.weight"),
              between = vector_of(prefix + "ffn_norm.weight");
    const matrix q = m("attn_q"), k = m("attn_k"), v = m("attn_v"), o = m("attn_output");
    const matrix gate = m("ffn_gate"), up = m("ffn_up"), down = m("ffn_down");
    std::vector<row> keys, values;
    for (std::uint32_t p = 0; p <= positions.back(); ++p) {
      const row x = normed(hidden[p], before);
      keys.push_back(times(k, x));
      rotate(keys.back(), p);
      values.push_back(times(v, x));
      round_to_half(keys.back());
      round_to_half(values.back());
    }
    for (const std::uint32_t p : positions) {
      row query = times(q, normed(hidden[p], before));
      rotate(query, p);
      add(hidden[p], times(o, attention(query, keys, values, p)));
      const row x = normed(hidden[p], between);
      row inner = times(gate, x);
      const row wide = times(up, x);
      for (std::size_t i = 0; i < inner.size(); ++i)
        inner[i] = inner[i] / (1.0 + std::exp(-inner[i])) * wide[i];
      add(hidden[p], times(down, inner));
    }
  }

  static void add(row& to, const row& what) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += what[i];
  }

  const gpu::gguf_file& file_;
  const gpu::model_config& config_;
  bool device_formats_;
};

/// The root mean square of found - expected, in units of the expected row's own.
inline double distance_of(const std::vector<float>& found, const float_model::row& expected) {
  double size = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = found[i] - expected[i];
    size += expected[i] * expected[i];
    squares += difference * difference;
  }
  return std::sqrt(squares / size);
}

}  // namespace troupe::test
