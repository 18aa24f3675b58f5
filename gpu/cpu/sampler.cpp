#include "gpu/cpu/sampler.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "config/bytes/mix64.hpp"

namespace troupe::gpu {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

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
  out.reserve(heap.size());
  for (const token_id token : heap) {
    out.emplace_back(token, static_cast<float>(logits[token] - log_total));
  }
  return out;
}

scored_token scored(token_id token, float logprob) {
  scored_token out;
  out.token = token;
  out.logprob = logprob;
  return out;
}

/// Of the first `count` of a list of log-probabilities together.
float probability_of(const std::vector<std::pair<token_id, float>>& top, std::size_t count) {
  double sum = 0.0;
  for (std::size_t i = 0; i < std::min(count, top.size()); ++i) {
    sum += std::exp(static_cast<double>(top[i].second));
  }
  return static_cast<float>(std::min(sum, 1.0));
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

/// Weights are in (0, 1], and positive floats are ordered as their patterns: 64 buckets for each
/// power of two.
constexpr std::uint32_t bucket_shift = 17;
constexpr std::size_t bucket_count = (0x3F800000u >> bucket_shift) + 1;

std::size_t bucket_of(float weight) {
  return std::min<std::size_t>(std::bit_cast<std::uint32_t>(weight) >> bucket_shift,
                               bucket_count - 1);
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
  const std::uint64_t key = mix64(seed + golden_step);
  return static_cast<double>(mix64(key + position * 0xD1342543DE82EF95u) >> 11) * 0x1p-53;
}

row_answer sampler::answer(const row_query& q) {
  row_answer out;
  const logit_stats raw = kernels_.stats({q.logits, q.vocab});
  out.bad_logits = raw.has_nan || !(std::fabs(raw.max) < infinity);
  if (out.bad_logits) {
    if (q.target >= 0) out.score = scored(q.target, -infinity);
    return out;
  }
  const decode_options& wants = *q.slice->decode;
  const auto listed = static_cast<std::size_t>(std::max(0, wants.top_logprobs));
  const std::size_t massed = q.sample && wants.confidence ? wants.confidence->top_k : 0;
  double log_total = 0.0;
  float mass = 0.0f;
  std::vector<std::pair<token_id, float>> top;
  if (q.target >= 0 || wants.top_logprobs >= 0 || massed > 0) {
    log_total = raw.max + std::log(kernels_.exp_sum({q.logits, q.vocab, raw.max, 1.0f, nullptr}));
    top = likeliest(q.logits, q.vocab, std::max(listed, massed), log_total);
    mass = probability_of(top, massed);
    if (top.size() > listed) top.resize(listed);
  }
  if (q.target >= 0) {
    out.score = scored(q.target, static_cast<float>(q.logits[q.target] - log_total));
    out.score->top = top;
  }
  if (!q.sample) return out;
  const std::optional<logit_stats> ready = prepare(q, raw, out);
  if (!ready) return out;
  const auto draw_by = [&](std::uint64_t seed) {
    const token_id token = choose(q, *ready, seed);
    scored_token drawn = scored(token, 0.0f);
    drawn.mass = mass;
    drawn.top = top;
    if (wants.top_logprobs >= 0) {
      drawn.logprob = static_cast<float>(raw_logit(q, token) - log_total);
    }
    return drawn;
  };
  out.sampled = draw_by(wants.sampling.seed);
  for (const sampled_tail& tail : q.slice->tails) out.tails.push_back(draw_by(tail.seed));
  return out;
}

/// Adjusts the logits, once however many tokens are drawn from them. None: nothing can be drawn,
/// and `out` says why.
std::optional<logit_stats> sampler::prepare(const row_query& q, const logit_stats& raw,
                                            row_answer& out) {
  const sampling_params& p = q.slice->decode->sampling;
  logit_stats top = raw;
  changed_.clear();
  if (p.needs_history() || !p.logit_bias.empty() || !q.slice->suppressed.empty() ||
      !q.slice->allowed.empty()) {
    adjust(q);
    keep_allowed(q);
    top = kernels_.stats({q.logits, q.vocab});
    out.bad_logits = top.has_nan;
    out.nothing_allowed = !top.has_nan && !(top.max > -infinity);
    if (out.bad_logits || out.nothing_allowed) return std::nullopt;
  }
  return top;
}

token_id sampler::choose(const row_query& q, const logit_stats& top, std::uint64_t seed) {
  const sampling_params& p = q.slice->decode->sampling;
  if (!(p.temperature > 0.0f) || p.top_k == 1 || !(p.top_p > 0.0f)) {
    return static_cast<token_id>(top.best);
  }
  return draw(q, top, seed);
}

void sampler::count_history(const sequence_slice& slice, std::uint32_t vocab) {
  counts_.resize(vocab, 0);
  seen_.clear();
  for (std::size_t i = 0; i < slice.history.size(); ++i) {
    const token_id token = slice.history[i];
    std::uint32_t& count = counts_[static_cast<std::size_t>(token)];
    if (count == 0) seen_.push_back(token);
    count |= 1;
    if (i >= slice.history_prompt) count += 2;
  }
}

/// Touches the biased tokens and the distinct ones of the history, nothing else. Results stay
/// finite, so that an extreme penalty is an extreme preference and never a NaN.
void sampler::adjust(const row_query& q) {
  constexpr float largest = std::numeric_limits<float>::max();
  const sampling_params& p = q.slice->decode->sampling;
  for (const auto& [token, bias] : p.logit_bias) {
    changed_.emplace_back(token, q.logits[token]);
    q.logits[token] += bias;
  }
  if (!p.needs_history()) return;
  count_history(*q.slice, q.vocab);
  for (const token_id token : seen_) {
    const std::uint32_t times = std::exchange(counts_[static_cast<std::size_t>(token)], 0) / 2;
    float x = q.logits[token];
    if (!(x > -infinity)) continue;
    changed_.emplace_back(token, x);
    x = x > 0.0f ? x / p.repetition_penalty : x * p.repetition_penalty;
    x -= p.frequency_penalty * static_cast<float>(times);
    if (times > 0) x -= p.presence_penalty;
    q.logits[token] = std::clamp(x, -largest, largest);
  }
}

void sampler::keep_allowed(const row_query& q) {
  for (const token_id token : q.slice->suppressed) q.logits[token] = -infinity;
  const token_bits& allowed = q.slice->allowed;
  if (allowed.empty()) return;
  for (std::uint32_t first = 0; first < q.vocab; first += 64) {
    const std::uint64_t bits = first / 64 < allowed.size() ? allowed[first / 64] : 0;
    if (bits == ~std::uint64_t{0}) continue;
    const std::uint32_t count = std::min(64u, q.vocab - first);
    for (std::uint32_t i = 0; i < count; ++i)
      if ((bits >> i & 1) == 0) q.logits[first + i] = -infinity;
  }
}

/// A token's first entry in changed_ is the oldest value.
float sampler::raw_logit(const row_query& q, token_id token) const {
  for (const auto& [changed, raw] : changed_) {
    if (changed == token) return raw;
  }
  return q.logits[token];
}

token_id sampler::draw(const row_query& q, const logit_stats& top, std::uint64_t seed) {
  const sampling_params& p = q.slice->decode->sampling;
  weights_.resize(q.vocab);
  const float inverse = std::min(1.0f / p.temperature, std::numeric_limits<float>::max());
  const double total = kernels_.exp_sum({q.logits, q.vocab, top.max, inverse, weights_.data()});
  const double uniform = uniform_at(seed, q.position);
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

/// Leaves in candidates_ the likeliest that hold `mass` together, in order of ids. The bucket in
/// which the mass is reached is found by one pass; only its tokens are compared with each other.
void sampler::keep_mass(const row_query& q, double mass) {
  bucket_mass_.assign(bucket_count, 0.0);
  for (const token_id token : candidates_) {
    bucket_mass_[bucket_of(weights_[token])] += weights_[token];
  }
  std::size_t edge = bucket_count - 1;
  double above = 0.0;
  for (; edge > 0 && above + bucket_mass_[edge] < mass; --edge) above += bucket_mass_[edge];
  std::vector<token_id> at_edge;
  for (const token_id token : candidates_) {
    if (bucket_of(weights_[token]) == edge) at_edge.push_back(token);
  }
  if (at_edge.empty()) return;
  const likelier first{q.logits};
  at_edge.resize(prefix_of_mass(at_edge, weights_, q.logits, mass - above));
  const token_id last = *std::max_element(at_edge.begin(), at_edge.end(), first);
  std::erase_if(candidates_, [&](token_id token) {
    const std::size_t bucket = bucket_of(weights_[token]);
    return bucket < edge || (bucket == edge && first(last, token));
  });
}

/// Fills candidates_ with the tokens that top-k, top-p and min-p leave. First those above a cutoff,
/// which is lowered until they are sure to contain the answer.
void sampler::keep_candidates(const row_query& q, double total) {
  const sampling_params& p = q.slice->decode->sampling;
  const std::size_t k = p.top_k > 0 ? static_cast<std::size_t>(p.top_k) : 0;
  double mass = 0.0;
  for (float cutoff = 0.02f;; cutoff = cutoff > 1e-6f ? cutoff * 0.02f : 0.0f) {
    candidates_.resize(q.vocab);
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < q.vocab; ++i) {  // no branch: half of them would be guessed wrong
      candidates_[count] = static_cast<token_id>(i);
      count += weights_[i] > cutoff;
    }
    candidates_.resize(count);
    mass = 0.0;
    for (const token_id token : candidates_) mass += weights_[token];
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
    keep_mass(q, p.top_p * whole);
  }
  if (p.min_p > 0.0f) {
    const float least = std::min(p.min_p, 1.0f);
    std::erase_if(candidates_, [&](token_id token) { return weights_[token] < least; });
  }
}

}  // namespace troupe::gpu
