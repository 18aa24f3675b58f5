// Prefill and steady decode rates of one engine on requests made for it: through the runtime with
// all its actors, or of the device alone, without any. What the two differ by is what the actors
// cost. Owns its sequences; the device is the caller's.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/make_backend.hpp"

namespace troupe {

/// What one decode measurement does: `windows` times `steps` steps in which all `streams` decode,
/// behind prompts of `prompt` tokens that are computed before and not counted.
struct decode_plan {
  std::uint32_t streams = 1, prompt = 64, steps = 32, windows = 3;

  /// Tokens that the longest sequence may come to; the first ones decode while the last prompts are
  /// computed.
  std::uint32_t longest() const;
  /// Of the pool, for all of them.
  std::uint32_t blocks(std::uint32_t block_size) const;
};

/// Of one window.
struct decode_rate {
  double tokens_per_s = 0;
  double kv_bytes_per_s = 0;  ///< K and V of all earlier tokens, read once for each token decoded
};

class engine_rates {
 public:
  virtual ~engine_rates() = default;
  /// Tokens/s of one prompt by itself, from when it is asked for to its first token.
  virtual double prefill(std::uint32_t tokens) = 0;
  /// One for each window.
  virtual std::vector<decode_rate> decode(const decode_plan&) = 0;
};

/// The embedded runtime with the product's settings, room for `max_streams`. `whole_prompts`: a
/// step is bounded by its tokens alone, not by its time, so that all sequences begin to decode at
/// nearly the same length.
std::unique_ptr<engine_rates> rates_through_runtime(std::shared_ptr<const gpu::loaded_model>,
                                                    std::shared_ptr<gpu::backend>,
                                                    std::uint32_t max_streams, bool whole_prompts);

/// The device's steps, one after the other. Prompts above 512 tokens are taken as computed: the
/// pool's content does not change the time.
std::unique_ptr<engine_rates> rates_of_device(std::shared_ptr<const gpu::loaded_model>,
                                              std::shared_ptr<gpu::backend>);

}  // namespace troupe
