// How fast one core is in this instruction set when nothing holds it back: sums that stay in
// registers, and plain reading. Compiled once per set. The empty asm statements hide values from
// the compiler, which would otherwise compute a repeated product once.
#include "gpu/cpu/kernels/isa/isa_kernels.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

namespace {

#if defined(TROUPE_ISA_AVX512)
constexpr int float_chains = 12;
#else
constexpr int float_chains = 4;  // a vf is several registers here
#endif

}  // namespace

#if defined(TROUPE_ISA_AVX512)

std::uint64_t dot_loop(std::uint64_t rounds) {
  constexpr int chains = 16;
  __m512i sum[chains];
#pragma GCC unroll 16
  for (int i = 0; i < chains; ++i) sum[i] = _mm512_set1_epi32(i);
  __m512i codes = _mm512_set1_epi8(3), a = _mm512_set1_epi8(-5);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    asm volatile("" : "+v"(codes), "+v"(a));
#pragma GCC unroll 16
    for (int i = 0; i < chains; ++i) sum[i] = _mm512_dpbusd_epi32(sum[i], codes, a);
  }
#pragma GCC unroll 16
  for (int i = 0; i < chains; ++i) asm volatile("" : : "v"(sum[i]));
  return rounds * chains * 64;
}

#elif defined(TROUPE_ISA_AVX2)

/// 16-bit sums of byte pairs: what 4-bit codes need, at its best.
std::uint64_t dot_loop(std::uint64_t rounds) {
  __m256i sum[8], codes[4], a[2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) sum[i] = _mm256_set1_epi16(static_cast<short>(i));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) codes[i] = _mm256_set1_epi8(static_cast<char>(i));
  a[0] = _mm256_set1_epi8(-5);
  a[1] = _mm256_set1_epi8(7);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    asm volatile("" : "+x"(a[0]), "+x"(a[1]));
    asm volatile("" : "+x"(codes[0]), "+x"(codes[1]), "+x"(codes[2]), "+x"(codes[3]));
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      sum[i] = _mm256_add_epi16(sum[i], _mm256_maddubs_epi16(codes[i % 4], a[i / 4]));
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) asm volatile("" : : "x"(sum[i]));
  return rounds * 8 * 32;
}

#else

/// 16-bit codes times one number into 32-bit sums, in whatever vectors the compiler has.
std::uint64_t dot_loop(std::uint64_t rounds) {
  std::int16_t codes[8][16];
  std::int32_t sum[16] = {};
  for (int i = 0; i < 128; ++i) codes[i / 16][i % 16] = static_cast<std::int16_t>(i % 16);
  std::int32_t a = -5;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    asm volatile("" : "+r"(a));
    for (int c = 0; c < 8; ++c) {
      for (int r = 0; r < 16; ++r) sum[r] += codes[c][r] * static_cast<std::int16_t>(a);
    }
    a = -a;
  }
  asm volatile("" : : "m"(sum));
  return rounds * 128;
}

#endif

std::uint64_t float_loop(std::uint64_t rounds) {
  vf sum[float_chains];
#pragma GCC unroll 16
  for (int i = 0; i < float_chains; ++i) sum[i] = set1(static_cast<float>(i));
  const float tiny = 1e-9f;
  float step = tiny;
  const vf x = set1(0.5f);
  for (std::uint64_t round = 0; round < rounds / 16; ++round) {
    asm volatile("" : "+m"(step));
    const vf y = set1(step);
#pragma GCC unroll 16
    for (int again = 0; again < 16; ++again) {
#pragma GCC unroll 16
      for (int i = 0; i < float_chains; ++i) sum[i] = fma(sum[i], x, y);
    }
  }
  float all = 0.0f;
  for (int i = 0; i < float_chains; ++i) all += reduce_add(sum[i]);
  asm volatile("" : : "m"(all));
  return rounds / 16 * 16 * float_chains * 16;
}

void read_loop(const std::byte* from, std::size_t bytes) {
  typedef std::uint64_t line __attribute__((vector_size(64)));
  line seen[4] = {};
  for (; bytes >= 4 * sizeof(line); bytes -= 4 * sizeof(line), from += 4 * sizeof(line)) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      __builtin_prefetch(from + 2048 + i * 64);
      line next;
      __builtin_memcpy(&next, from + i * 64, sizeof next);
      seen[i] |= next;
    }
  }
  const line all = seen[0] | seen[1] | seen[2] | seen[3];
  asm volatile("" : : "m"(all));
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
