// How text is cut into the pieces that byte-pair merges stay inside. One function per rule a model
// file can name; each is a scanner over code points: linear, no recursion, no regex engine, any
// bytes accepted.
#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

namespace troupe::gpu {

/// Appends the end (byte offset) of every piece of `text`, in order; the last is text.size().
/// Nothing for no text.
using pre_tokenizer = void (*)(std::string_view text, std::vector<std::size_t>& ends);

/// The rule called `name` in `tokenizer.ggml.pre`, or nullptr.
pre_tokenizer find_pre_tokenizer(std::string_view name);

/// The names find_pre_tokenizer knows, for messages.
std::string_view known_pre_tokenizers();

}  // namespace troupe::gpu
