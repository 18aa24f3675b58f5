// `troupe inspect MODEL`: what a GGUF file holds and what of it this build cannot serve, and why.
// Reads the file's structure, never its weights.
#pragma once
#include <string>
#include <vector>

#include "gpu/model/gguf/gguf.hpp"
#include "tools/cli/options.hpp"

namespace CLI {
class App;
}

namespace troupe {

/// One line for each thing that keeps the file from being served as it is; empty: it can be served.
std::vector<std::string> unsupported_parts(const gpu::gguf_file&);

std::string inspect_words(const gpu::gguf_file&);
std::string inspect_json(const gpu::gguf_file&);

class inspect_command {
 public:
  explicit inspect_command(CLI::App&);
  bool given() const;
  early_exit run(bool on_terminal) const;

 private:
  CLI::App* app_ = nullptr;
};

}  // namespace troupe
