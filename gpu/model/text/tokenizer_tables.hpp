// What a tokenizer knows: vocabulary, merges, rule, special tokens. Filled once by tokenizer.cpp,
// read by tokenization.cpp; nobody else includes it, and it never changes afterwards.
#pragma once
#include <array>
#include <bitset>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpu/model/text/byte_pair_merges.hpp"
#include "gpu/model/text/pre_tokenizer.hpp"
#include "gpu/model/text/tokenizer.hpp"

namespace troupe::gpu {

inline constexpr token_id no_token = -1;

struct tokenizer::impl {
  std::vector<std::string> bytes;
  std::vector<bool> special;
  std::array<token_id, 256> byte_tokens{};
  bool loses_bytes = false;  ///< some bytes have no token
  std::size_t longest = 1;   ///< bytes of the longest token, special ones included
  byte_pair_merges merges;
  pre_tokenizer rule;
  /// Normal tokens by their bytes; filled when the rule takes whole pieces. Views of `bytes`.
  std::unordered_map<std::string_view, token_id> whole;
  /// Texts of control and user-defined tokens, sorted, and the bytes they begin with.
  std::vector<std::pair<std::string, token_id>> specials;
  std::bitset<256> special_starts;
  bool add_bos = false;
  token_id bos = no_token;
  std::vector<token_id> end_tokens;

  void read_tokens(const gguf_file&);
  void read_merges(const gguf_file&);
  void read_special_ids(const gguf_file&);
  token_id longest_special(std::string_view text) const;
  /// How many of these bytes have a token.
  std::size_t kept(std::string_view text) const;
};

}  // namespace troupe::gpu
