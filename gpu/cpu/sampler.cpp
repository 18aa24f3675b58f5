#include "gpu/cpu/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe::gpu {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// A bijection that spreads every input bit over the word (two multiply-xorshift rounds).
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// Likelier first, ties by lower id.
struct likelier {
  const float* logits;
  bool operator()(token_id a, token_id b) const {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  }
};

std::vector<std::pair<token_id, float>> likeliest(const float* logits, std::uint32_t vocab,
                                                  std::size_t count, double log_total) {
  const likelier first{logits};
  std::vector<token_id> heap;  // its front is the least likely kept
  for (std::uint32_t i = 0; i < vocab && count > 0; ++i) {
    const token_id token = static_cast<token_id>(i);
    if (heap.size() == count) {
      if (!(logits[i] > logits[heap.front()])) continue;
      std::pop_heap(heap.begin(), heap.end(), first);
      heap.pop_back();
    }
    heap.push_back(token);
    std::push_heap(heap.begin(), heap.end(), first);
  }
  std::sort_heap(heap.begin(), heap.end(), first);
  std::vector<std::pair<token_id, float>> out;
  for (const token_id token : heap) {
    out.emplace_back(token, static_cast<float>(logits[token] - log_total));
  }
  return out;
}

/// The shortest prefix, likeliest first, that holds `mass`: found by halving, without sorting.
/// Answers its length.
std::size_t prefix_of_mass(std::vector<token_id>& tokens, const std::vector<float>& weights,
                           const float* logits, double mass) {
  std::size_t low = 0, high = tokens.size();  // the answer is in (low, high]
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    std::nth_element(tokens.begin() + low, tokens.begin() + middle, tokens.begin() + high,
                     likelier{logits});
    double upper = 0.0;
    for (std::size_t i = low; i < middle; ++i) upper += weights[tokens[i]];
    if (upper >= mass) {
      high = middle;
    } else {
      mass -= upper;
      low = middle;
    }
  }
  return high;
}

/// Walks `count` weights in order until their sum passes `goal`; answers the index.
template <class Weight>
std::size_t walk(std::size_t begin, std::size_t count, double goal, Weight weight) {
  std::size_t last = begin;
  for (std::size_t i = begin; i < count; ++i) {
    if (!(weight(i) > 0.0f)) continue;
    last = i;
    goal -= weight(i);
    if (goal < 0.0) break;
  }
  return last;
}

}  // namespace

double uniform_at(std::uint64_t seed, std::uint64_t position) {
  const std::uint64_t key = mix(seed + 0x9E3779B97F4A7C15u);
  return static_cast<double>(mix(key + position * 0xD1342543DE82EF95u) >> 11) * 0x1p-53;
}

row_answer sampler::answer(const row_query& q) {
  row_answer out;
  const logit_stats raw = kernels_.stats({q.logits, q.vocab});
  out.bad_logits = raw.has_nan || !(std::fabs(raw.max) < infinity);
  if (out.bad_logits) {
    if (q.target >= 0) out.score = scored_token{q.target, -infinity, {}};
    return out;
  }
  const sequence_slice& slice = *q.slice;
  double log_total = 0.0;
  std::vector<std::pair<token_id, float>> top;
  if (q.target >= 0 || slice.top_logprobs >= 0) {
    log_total = raw.max + std::log(kernels_.exp_sum({q.logits, q.vocab, raw.max, 1.0f, nullptr}));
    const auto count = static_cast<std::size_t>(std::max(0, slice.top_logprobs));
    top = likeliest(q.logits, q.vocab, count, log_total);
  }
  if (q.target >= 0) {
    out.score = scored_token{q.target, static_cast<float>(q.logits[q.target] - log_total), top};
  }
  if (!q.sample) return out;
  const std::optional<token_id> token = choose(q, raw);
  if (!token) {
    out.bad_logits = true;
    return out;
  }
  out.sampled = scored_token{*token, 0.0f, std::move(top)};
  if (slice.top_logprobs >= 0) {
    out.sampled->logprob = static_cast<float>(q.logits[*token] - log_total);
  }
  return out;
}

std::optional<token_id> sampler::choose(const row_query& q, const logit_stats& raw) {
  logit_stats top = raw;
  if (!q.slice->suppressed.empty()) {
    for (const token_id token : q.slice->suppressed) q.logits[token] = -infinity;
    top = kernels_.stats({q.logits, q.vocab});
    if (!(top.max > -infinity)) return std::nullopt;
  }
  const sampling_params& p = q.slice->sampling;
  if (!(p.temperature > 0.0f) || p.top_k == 1 || !(p.top_p > 0.0f)) {
    return static_cast<token_id>(top.best);
  }
  return draw(q, top);
}

token_id sampler::draw(const row_query& q, const logit_stats& top) {
  const sampling_params& p = q.slice->sampling;
  weights_.resize(q.vocab);
  const float inverse = std::min(1.0f / p.temperature, std::numeric_limits<float>::max());
  const double total = kernels_.exp_sum({q.logits, q.vocab, top.max, inverse, weights_.data()});
  const double uniform = uniform_at(p.seed, q.position);
  if (p.top_k <= 0 && p.top_p >= 1.0f && !(p.min_p > 0.0f)) {
    return static_cast<token_id>(
        walk(0, q.vocab, uniform * total, [&](std::size_t i) { return weights_[i]; }));
  }
  keep_candidates(q, total);
  const auto weight = [&](std::size_t i) { return weights_[candidates_[i]]; };
  double kept = 0.0;
  for (std::size_t i = 0; i < candidates_.size(); ++i) kept += weight(i);
  return candidates_[walk(0, candidates_.size(), uniform * kept, weight)];
}

/// Fills candidates_ with the tokens that top-k, top-p and min-p leave. First those above a cutoff,
/// which is lowered until they are sure to contain the answer.
void sampler::keep_candidates(const row_query& q, double total) {
  const sampling_params& p = q.slice->sampling;
  const std::size_t k = p.top_k > 0 ? static_cast<std::size_t>(p.top_k) : 0;
  double mass = 0.0;
  for (float cutoff = 0.02f;; cutoff = cutoff > 1e-6f ? cutoff * 0.02f : 0.0f) {
    candidates_.clear();
    mass = 0.0;
    for (std::uint32_t i = 0; i < q.vocab; ++i) {
      if (!(weights_[i] > cutoff)) continue;
      candidates_.push_back(static_cast<token_id>(i));
      mass += weights_[i];
    }
    const bool enough =
        k > 0 ? candidates_.size() >= k : mass >= p.top_p * total || cutoff < p.min_p;
    if (enough || cutoff == 0.0f) break;
  }
  if (k > 0 && k < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + p.top_k, candidates_.end(),
                     likelier{q.logits});
    candidates_.resize(k);
    std::sort(candidates_.begin(), candidates_.end());
  }
  if (p.top_p < 1.0f) {
    double whole = total;
    if (k > 0) {
      whole = 0.0;
      for (const token_id token : candidates_) whole += weights_[token];
    }
    candidates_.resize(prefix_of_mass(candidates_, weights_, q.logits, p.top_p * whole));
    std::sort(candidates_.begin(), candidates_.end());
  }
  if (p.min_p > 0.0f) {
    const float least = std::min(p.min_p, 1.0f);
    std::erase_if(candidates_, [&](token_id token) { return weights_[token] < least; });
  }
}

}  // namespace troupe::gpu
