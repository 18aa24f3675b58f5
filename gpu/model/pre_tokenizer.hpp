// How text is cut into the pieces that byte-pair merges stay inside. One function per rule a model
// file can name; each is a scanner over code points: linear, no recursion, no regex engine, any
// bytes accepted.
#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

namespace troupe::gpu {

/// A rule, and what a file that names it leaves unsaid.
struct pre_tokenizer {
  /// Appends the end (byte offset) of every piece of `text`, in order; the last is text.size().
  /// Nothing for no text.
  void (*split)(std::string_view text, std::vector<std::size_t>& ends) = nullptr;
  /// A piece that is a token of the vocabulary is that token, whatever the merges would make of it.
  bool whole_pieces = false;
  /// What holds without `tokenizer.ggml.add_bos_token`.
  bool adds_bos = false;
};

/// The rule called `name` in `tokenizer.ggml.pre`, or nullptr.
const pre_tokenizer* find_pre_tokenizer(std::string_view name);

/// The names find_pre_tokenizer knows, in quotes, for messages.
std::string_view known_pre_tokenizers();

}  // namespace troupe::gpu
