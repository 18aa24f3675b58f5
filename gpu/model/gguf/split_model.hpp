// Recognises one part of a model that llama.cpp's gguf-split cut into several files. Parts are not
// served: every other check would speak of tensors or metadata that are merely in another part.
#pragma once
#include <string>

#include "gpu/model/gguf/gguf.hpp"

namespace troupe::gpu {

/// Why the file cannot be loaded if it is a part: which one, and the command that joins the parts.
/// Empty for a whole file, which a joined one is too although it keeps split.count (then 0).
std::string split_refusal(const gguf_file& file);

}  // namespace troupe::gpu
