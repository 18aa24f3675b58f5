// Repacked weights kept in a file beside the model (MODEL.panels): read and verified at the next
// start, or refused with the reason. The file is replaced as a whole by rename and never written in
// place. Owns no panels; never throws for anything wrong with the file; keeps no descriptor open.
//
//   magic x8 | format | 0 | layout | model bytes | model sum | panel bytes | panel sum | header sum
//   the panels, as they lie in memory
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/cpu/threads/worker_pool.hpp"
#include "gpu/model/gguf/gguf.hpp"

namespace troupe::gpu {

/// Identifies what pack_panels makes of every loadable type, by packing a little of each: panels of
/// a build that packs otherwise are refused even if its version number was not changed.
std::uint64_t packing_checksum();

class panel_cache {
 public:
  /// `layout`: kinds, shapes and places of everything inside the panels' memory.
  panel_cache(const gguf_file& file, const std::vector<std::uint64_t>& layout, worker_pool& pool);

  const std::string& path() const { return path_; }
  bool exists() const;
  /// Fills `to` with the file's panels. Empty: they are these panels of this model, bit for bit as
  /// stored. Else why not, and `to` holds anything.
  std::string load(std::span<std::byte> to);
  /// Writes the panels. Empty: they are in place. Else why not, and what was there still is.
  std::string store(std::span<const std::byte> panels);

 private:
  struct header;
  header expected(std::uint64_t panel_bytes);
  std::uint64_t model_sum();
  std::string write_file(int fd, std::span<const std::byte> panels);

  const gguf_file& file_;
  worker_pool& pool_;
  std::string path_;
  std::uint64_t layout_;
  std::uint64_t model_sum_;  // from before anything was packed
};

}  // namespace troupe::gpu
