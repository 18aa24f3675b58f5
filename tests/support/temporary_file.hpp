// A file in the system's temporary folder that goes away with its owner. For tests that feed bytes
// to a loader.
#pragma once
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tests/support/source_dir.hpp"

namespace troupe::test {

class temporary_file {
 public:
  explicit temporary_file(std::string_view bytes, const std::string& name = "file.gguf") {
    static std::atomic<unsigned> count{0};
    path_ = std::filesystem::temp_directory_path() / ("troupe-test-" + std::to_string(::getpid()) +
                                                      "-" + std::to_string(count++) + "-" + name);
    write(bytes);
  }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  ~temporary_file() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  /// Replaces the content.
  void write(std::string_view bytes) const {
    std::ofstream out(path_, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out) throw std::runtime_error("cannot write " + path_.string());
  }

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// Where the default model is: TROUPE_MODEL, else models/ of the source tree. Throws when it is not
/// there.
inline std::string default_model_path() {
  const char* given = std::getenv("TROUPE_MODEL");
  const std::string path =
      given != nullptr ? given
                       : troupe::test::source_dir() + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) {
    throw std::runtime_error("the default model is not at " + path +
                             "; set TROUPE_MODEL to its path");
  }
  return path;
}

}  // namespace troupe::test
