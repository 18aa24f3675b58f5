// Which tiles of attention several threads share, and how: the context of a tile that would keep
// one thread longer than a quarter of its share of the work is cut into pieces of whole splits.
// With tiles of one length those are fewer than four a thread: a few long sequences, or one beside
// many short ones. Pure; what is cut never changes a bit (gpu/cpu/kernels/attention.hpp).
#pragma once
#include <span>
#include <vector>

#include "gpu/cpu/kernels/attention.hpp"
#include "gpu/model/model_config.hpp"

namespace troupe::gpu {

/// What one call of a kernel does.
struct attention_piece {
  static constexpr std::uint32_t whole = 0xFFFFFFFFu;
  std::uint32_t tile = 0;
  std::uint32_t cut = whole;  ///< index of its tile among those that are cut
  std::uint32_t begin = 0;    ///< splits; of a cut tile only
  std::uint32_t end = 0;
};

/// A tile whose splits are summed apart.
struct cut_tile {
  std::size_t sums = 0;    ///< first of its sums in the memory for them, in floats
  std::uint32_t left = 0;  ///< pieces not done
};

/// Floats that keep the sums of all tiles ever cut at a time; bounded, for long contexts on many
/// threads.
std::size_t split_room(const model_config& config, std::uint32_t threads);

/// Fills `pieces` and `cuts`, whose memory is used again; without a cut both are empty. Wide tiles,
/// which come in numbers, and those that find no room (floats) stay whole.
void cut_attention(std::span<const attention_params> tiles, std::uint32_t threads, std::size_t room,
                   std::vector<attention_piece>& pieces, std::vector<cut_tile>& cuts);

}  // namespace troupe::gpu
