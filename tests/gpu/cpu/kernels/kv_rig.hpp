// K and V of one layer in a pool of their own, in any types, and their values read back in double
// by formulas that know nothing of the kernels' code. Header only.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gpu/cpu/kernels/isa/half.hpp"
#include "gpu/cpu/kernels/kv_view.hpp"
#include "gpu/kv_format.hpp"

namespace troupe::test {

/// What the CPU stores.
inline const std::vector<gpu::kv_dtype> cpu_kv_dtypes{
    gpu::kv_f16, gpu::kv_bf16, gpu::kv_int8, gpu::kv_fp8_e4m3, gpu::kv_fp8_e5m2, gpu::kv_int4};

/// Sign, exponent and fraction by their places.
inline double float_of_bits(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const std::uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const auto exponent = static_cast<int>(bits >> fraction_bits & ((1u << exponent_bits) - 1));
  const double size =
      exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                    : std::ldexp(fraction + (1u << fraction_bits), exponent - bias - fraction_bits);
  return bits >> (exponent_bits + fraction_bits) & 1u ? -size : size;
}

/// The Walsh-Hadamard transform in blocks of the largest power of two that divides the size, by its
/// definition: sign by the parity of the bits that two places have in common.
inline std::vector<double> spread(const std::vector<double>& x) {
  const std::size_t block = x.size() & (~x.size() + 1);
  std::vector<double> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = i / block * block; j < (i / block + 1) * block; ++j)
      out[i] += __builtin_parityll(i & j & (block - 1)) ? -x[j] : x[j];
    out[i] /= std::sqrt(static_cast<double>(block));
  }
  return out;
}

struct kv_memory {
  kv_memory(const gpu::kv_types& types_, std::uint32_t dim_, std::uint32_t size,
            std::uint32_t tokens, std::uint32_t heads_ = 2)
      : types(types_), dim(dim_), heads(heads_), blocks((tokens + size - 1) / size) {
    const auto format = gpu::one_group_format(types, 1, heads, dim, size, blocks);
    memory.resize(format.pool_bytes());
    const auto side = [&](const gpu::kv_dtype& t) {
      return gpu::kv_side{t.encoding, format.head_bytes(t),
                          t.head_scale_bytes ? format.scales_offset(t) : 0};
    };
    view = {memory.data(), format.block_bytes(0), format.value_offset(0),
            size,          side(types.k),         side(types.v)};
    for (std::uint32_t b = 0; b < blocks; ++b) table.push_back(blocks - 1 - b);
  }

  /// Every code that is a number, with scales that bring the largest value near 1.
  void fill(std::uint64_t seed) {
    for (std::byte& x : memory) x = static_cast<std::byte>(next(seed) >> 40);
    for (std::uint32_t h = 0; h < heads; ++h) {
      for (std::uint32_t t = 0; t < blocks * view.block_size; ++t) {
        for (std::uint32_t d = 0; d < dim; ++d) {
          tame(view.key, key_head(h, t), key_at(t, d), seed);
          tame(view.value, value_head(h, t), value_at(t, d), seed);
        }
        put_scale(view.key, key_head(h, t), t, types.k, seed);
        put_scale(view.value, value_head(h, t), t, types.v, seed);
      }
    }
  }
  /// NaN for whoever reads it.
  void spoil(std::uint32_t head, std::uint32_t token) {
    const auto side = [&](const gpu::kv_side& s, std::byte* at, auto place) {
      if (s.scaled()) {
        const float nan = std::nanf("");
        std::memcpy(at + s.scales + token % view.block_size * 4, &nan, 4);
        return;
      }
      for (std::uint32_t d = 0; d < dim; ++d) {
        const std::uint16_t nan = 0x7FFF;
        std::memcpy(at + 2 * place(token, d), &nan, 2);
      }
    };
    side(view.key, key_head(head, token), [&](auto t, auto d) { return key_at(t, d); });
    side(view.value, value_head(head, token), [&](auto t, auto d) { return value_at(t, d); });
  }

  /// What the stored head stands for.
  std::vector<double> key_row(std::uint32_t h, std::uint32_t token) const {
    std::vector<double> out;
    for (std::uint32_t d = 0; d < dim; ++d) out.push_back(key(h, token, d));
    return view.key.has_codes() ? spread(out) : out;
  }
  std::vector<double> value_row(std::uint32_t h, std::uint32_t token) const {
    std::vector<double> out;
    for (std::uint32_t d = 0; d < dim; ++d) out.push_back(value(h, token, d));
    return view.value.has_codes() ? spread(out) : out;
  }
  /// As it lies in memory.
  double key(std::uint32_t h, std::uint32_t token, std::uint32_t d) const {
    const std::byte* head = view.key_head(table[token / view.block_size], h);
    if (view.key.encoding == gpu::kv_encoding::int4) {
      const std::uint32_t t = token % view.block_size;
      const auto byte = head[t / 16 * 8 * dim + d / 8 * 64 + t % 16 * 4 + d % 4];
      return nibble(view.key, head, token, byte, d / 4 % 2 == 1);
    }
    return decoded(view.key, head, token, key_at(token, d));
  }
  double value(std::uint32_t h, std::uint32_t token, std::uint32_t d) const {
    const std::byte* head = view.value_head(table[token / view.block_size], h);
    if (view.value.encoding == gpu::kv_encoding::int4) {
      const std::uint32_t t = token % view.block_size;
      const auto byte = head[t / 4 * 2 * dim + d / 32 * 64 + d % 16 * 4 + t % 4];
      return nibble(view.value, head, token, byte, d / 16 % 2 == 1);
    }
    return decoded(view.value, head, token, value_at(token, d));
  }
  float scale(const gpu::kv_side& side, const std::byte* head, std::uint32_t token) const {
    float out;
    std::memcpy(&out, head + side.scales + token % view.block_size * 4, 4);
    return out;
  }
  std::byte* key_head(std::uint32_t h, std::uint32_t token) const {
    return view.key_head(table[token / view.block_size], h);
  }
  std::byte* value_head(std::uint32_t h, std::uint32_t token) const {
    return view.value_head(table[token / view.block_size], h);
  }

  gpu::kv_types types;
  std::uint32_t dim, heads, blocks;
  std::vector<std::byte> memory;
  gpu::kv_view view;
  std::vector<std::uint32_t> table;

 private:
  static std::uint64_t next(std::uint64_t& seed) {
    return seed = seed * 6364136223846793005u + 1442695040888963407u;
  }
  /// Index of a value in its head, not for int4.
  std::size_t key_at(std::uint32_t token, std::uint32_t d) const {
    const std::size_t t = token % view.block_size;
    if (view.key.encoding == gpu::kv_encoding::int8)
      return t / 16 * 16 * dim + d / 4 * 64 + t % 16 * 4 + d % 4;
    return std::size_t{d} * view.block_size + t;
  }
  std::size_t value_at(std::uint32_t token, std::uint32_t d) const {
    const std::size_t t = token % view.block_size;
    if (view.value.encoding == gpu::kv_encoding::int8) return t / 4 * 4 * dim + d * 4 + t % 4;
    return t * dim + d;
  }
  /// Below 1 in a 16-bit type; no NaN or infinity in one of 8 bits.
  static void tame(const gpu::kv_side& side, std::byte* head, std::size_t at, std::uint64_t& seed) {
    const float x = static_cast<float>(next(seed) >> 40) / static_cast<float>(1 << 23) - 1.0f;
    if (side.encoding == gpu::kv_encoding::f16) {
      const auto half = gpu::float_to_half(x);
      std::memcpy(head + 2 * at, &half, 2);
    } else if (side.encoding == gpu::kv_encoding::bf16) {
      std::uint32_t bits;
      std::memcpy(&bits, &x, 4);
      const auto upper = static_cast<std::uint16_t>(bits >> 16);
      std::memcpy(head + 2 * at, &upper, 2);
    } else if (side.encoding == gpu::kv_encoding::fp8_e4m3) {
      if ((head[at] & std::byte{0x7F}) == std::byte{0x7F}) head[at] ^= std::byte{1};
    } else if (side.encoding == gpu::kv_encoding::fp8_e5m2) {
      if ((head[at] & std::byte{0x7C}) == std::byte{0x7C}) head[at] ^= std::byte{4};
    }
  }
  void put_scale(const gpu::kv_side& side, std::byte* head, std::uint32_t token,
                 const gpu::kv_dtype& type, std::uint64_t& seed) const {
    if (!side.scaled()) return;
    const float largest = type.encoding == gpu::kv_encoding::int8       ? 127.0f
                          : type.encoding == gpu::kv_encoding::int4     ? -8.0f
                          : type.encoding == gpu::kv_encoding::fp8_e4m3 ? 448.0f / 256.0f
                                                                        : 57344.0f;
    const float scale = (0.25f + static_cast<float>(next(seed) >> 40) / (1 << 25)) / largest;
    std::memcpy(head + side.scales + token % view.block_size * 4, &scale, 4);
  }
  double decoded(const gpu::kv_side& side, const std::byte* head, std::uint32_t token,
                 std::size_t at) const {
    std::uint16_t half = 0;
    if (!side.scaled()) std::memcpy(&half, head + 2 * at, 2);
    const auto byte = static_cast<std::uint32_t>(head[at]);
    switch (side.encoding) {
      case gpu::kv_encoding::f16:
        return gpu::half_to_float(half);
      case gpu::kv_encoding::bf16:
        return float_of_bits(half, 8, 7);
      case gpu::kv_encoding::int8:
        return double{scale(side, head, token)} * (static_cast<int>(byte) - 128);
      case gpu::kv_encoding::fp8_e4m3:  // the scale is 2^8 times what stands beside e4m3 itself
        return double{scale(side, head, token)} / 256 * float_of_bits(byte, 4, 3);
      default:
        return double{scale(side, head, token)} * float_of_bits(byte, 5, 2);
    }
  }
  double nibble(const gpu::kv_side& side, const std::byte* head, std::uint32_t token,
                std::byte byte, bool upper) const {
    const auto both = static_cast<int>(byte);
    return double{scale(side, head, token)} * ((upper ? both >> 4 : both & 15) - 8);
  }
};

}  // namespace troupe::test
