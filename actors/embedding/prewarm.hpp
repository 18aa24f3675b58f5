// --prewarm: computes the prompts of a file before the first client is served, so that their
// prefixes are in the cache. A client of the engine like any other, one prompt after another; knows
// no actor. The program that starts the runtime calls it once.
#pragma once
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "actors/api/generation.hpp"

namespace troupe {

/// A file beyond this is refused before it is read further.
inline constexpr std::size_t prewarm_bytes_max = 64u << 20;

/// One prompt of the file.
struct prewarm_prompt {
  std::size_t line = 0;
  core::generation_request request;
};

struct prewarm_file {
  std::vector<prewarm_prompt> prompts;
  std::vector<std::string> problems;  ///< each with its line
};

/// JSON lines: {"prompt": "..."} or {"messages": [{"role": "...", "content": "..."}]}, both with an
/// optional "cache_salt". Blank lines and lines that begin with # are skipped.
prewarm_file parse_prewarm(std::string_view text);

struct prewarm_report {
  std::vector<std::string> problems;  ///< not empty: the start should fail
  std::string warning;                ///< empty: none
  std::uint32_t prompts = 0;          ///< computed
  std::uint64_t tokens = 0;           ///< newly in the prefix cache
  bool interrupted = false;
};

/// Computes every prompt of the file at `path`. The whole file is checked before the first prompt
/// is computed, so a mistake costs no waiting. A stop ends it early; the program requests it when
/// the engine fails, since a dead engine ends no prompt.
prewarm_report prewarm(core::generation_engine&, const std::string& path, std::uint32_t block_size,
                       std::uint32_t pool_blocks, std::stop_token);

}  // namespace troupe
