// gpu/cpu/kernels/logit_stats.hpp, compiled once per instruction set.
#include "gpu/cpu/kernels/isa/isa_kernels.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

/// 16 logits from `at`; lanes behind `count` read as -inf.
TROUPE_INLINE vf load_logits(const float* logits, std::uint32_t at, std::uint32_t count) {
  if (at + 16 <= count) return load(logits + at);
  float lane[16];
  for (std::uint32_t i = 0; i < 16; ++i) {
    lane[i] = at + i < count ? logits[at + i] : -__builtin_inff();
  }
  return load(lane);
}

logit_stats stats(const logit_stats_params& p) {
  vf largest = set1(-__builtin_inff());
  logit_stats out;
  for (std::uint32_t i = 0; i < p.count; i += 16) {
    const vf x = load_logits(p.logits, i, p.count);
    largest = max(largest, x);
    out.has_nan = out.has_nan || any_nan(x);
  }
  if (out.has_nan) return out;
  out.max = reduce_max(largest);
  while (out.best + 1 < p.count && p.logits[out.best] != out.max) ++out.best;
  return out;
}

double exp_sum(const exp_sum_params& p) {
  const vf top = set1(p.max);
  const vf inverse = set1(p.inverse_temperature);
  double total = 0.0;
  for (std::uint32_t begin = 0; begin < p.count; begin += 1024) {
    const std::uint32_t end = p.count - begin < 1024 ? p.count : begin + 1024;
    vf sum = zero();
    for (std::uint32_t i = begin; i < end; i += 16) {
      const vf e = exp(mul(sub(load_logits(p.logits, i, p.count), top), inverse));
      sum = add(sum, e);
      if (!p.weights) continue;
      float lane[16];
      store(lane, e);
      for (std::uint32_t k = 0; k < 16 && i + k < end; ++k) p.weights[i + k] = lane[k];
    }
    total += static_cast<double>(reduce_add(sum));
  }
  return total;
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
