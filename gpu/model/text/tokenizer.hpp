// Byte-level BPE with the model's pre-tokenizer, and its inverse. Immutable after construction and
// safe to share between threads. Linear time (n log n at worst) and constant stack for any input.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/sampling_params.hpp"
#include "gpu/model/chat_template.hpp"
#include "gpu/model/gguf/gguf.hpp"

namespace troupe::gpu {

class tokenizer {
 public:
  /// Throws model_error naming the key: unknown tokenizer.ggml.model or .pre, missing bytes, ids
  /// out of range, duplicate tokens, merges of unknown parts.
  static tokenizer from_gguf(const gguf_file&);
  tokenizer(tokenizer&&) noexcept;
  ~tokenizer();

  /// `parse_special`: text that spells a special token becomes that token (templates, an author's
  /// own prompt); otherwise it is plain text. Invalid UTF-8 is encoded byte for byte.
  std::vector<token_id> encode(std::string_view text, bool parse_special) const;

  /// A rendered chat: special tokens are parsed inside trusted spans only; ordinary text joins
  /// across spans, so the result is that of the whole text wherever users wrote no special-token
  /// text.
  std::vector<token_id> encode(const std::vector<template_span>& spans) const;

  /// The raw bytes a token stands for (a special token: its own text). `id` must be < vocab_size().
  const std::string& bytes(token_id id) const;
  bool is_special(token_id id) const;
  std::uint32_t vocab_size() const;
  std::size_t longest_token() const;  ///< in bytes, special ones included
  /// How many have a token; the others are lost.
  std::size_t kept_bytes(std::string_view text) const;
  bool add_bos() const;  ///< put bos in front of an author's own prompt
  token_id bos() const;  ///< -1 when there is none
  const std::vector<token_id>& end_tokens()
      const;  ///< sorted; eos, eot and the end-of-text token when they exist

 private:
  friend class tokenization;
  tokenizer();
  struct impl;
  std::unique_ptr<impl> impl_;
};

/// Incremental text of one token stream: every push answers the bytes that are whole UTF-8
/// characters now. A copyable value; the tokenizer must outlive it.
class detokenizer {
 public:
  explicit detokenizer(const tokenizer& vocabulary, bool skip_special = true);
  std::string push(token_id);
  /// The end of the stream: an incomplete tail becomes U+FFFD.
  std::string flush();

 private:
  const tokenizer* vocabulary_;
  bool skip_special_;
  std::string held_;
};

}  // namespace troupe::gpu
