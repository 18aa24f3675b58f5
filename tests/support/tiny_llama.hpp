// A complete small Llama model as GGUF bytes: random weights of a given type, a byte-level
// vocabulary of all 256 bytes with a few merges and ChatML's control tokens. Same options, same
// bytes, on every machine.
#pragma once
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/gguf_writer.hpp"

namespace troupe::test {

struct tiny_llama {
  std::uint32_t layers = 2;
  std::uint32_t width = 64;      ///< a multiple of 32 (256 for the K-types), and of heads
  std::uint32_t ffn_width = 96;  ///< a multiple of 32 (256 for the K-types)
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t context = 256;
  std::uint32_t type = 1;  ///< of the matrices, in ggml's numbers; see random_weights
  bool tied = true;        ///< no output.weight
  std::uint64_t seed = 1;
  float rope_base = 10000.0f;
  /// Of token_embd, attn_v and ffn_down, as files of mixed types have it; none: `type`.
  std::optional<std::uint32_t> other_type = std::nullopt;
  float query_spread = 1.0f;   ///< widens attn_q: attention looks at few tokens instead of all
  std::uint32_t head_dim = 0;  ///< 0: width / heads, and the file does not say it
  std::uint32_t head_length() const { return head_dim != 0 ? head_dim : width / heads; }
};

/// The bits of a half-precision number, rounded towards zero; not for infinities.
inline std::uint16_t half_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const auto exponent = static_cast<std::int32_t>((bits >> 23) & 0xff) - 127 + 15;
  const auto sign = (bits >> 16) & 0x8000u;
  if (exponent <= 0) {  // subnormal
    const auto shift = static_cast<std::uint32_t>(14 - exponent);
    const auto fraction = shift > 24 ? 0u : ((bits & 0x7fffffu) | 0x800000u) >> shift;
    return static_cast<std::uint16_t>(sign | fraction);
  }
  return static_cast<std::uint16_t>(sign | (static_cast<std::uint32_t>(exponent) << 10) |
                                    ((bits >> 13) & 0x3ffu));
}

/// A ggml type's block: how many weights, which f16 fields it has, how many other bytes, and the
/// spread of its weights in units of `d` when those bytes are random.
struct block_shape {
  std::uint32_t elements;
  float minimum;  ///< m or dmin in units of d that centres the weights; 0: no such field
  std::uint32_t other_bytes;  ///< codes and sub-block scales, all of them uniform
  float spread;
  bool scale_last = false;
};

inline block_shape block_shape_of(std::uint32_t type) {
  switch (type) {
    case 2:  // Q4_0
      return {32, 0.0f, 16, 4.6f};
    case 3:  // Q4_1
      return {32, -7.5f, 16, 4.6f};
    case 6:  // Q5_0
      return {32, 0.0f, 20, 9.2f};
    case 7:  // Q5_1
      return {32, -15.5f, 20, 9.2f};
    case 8:  // Q8_0
      return {32, 0.0f, 32, 73.0f};
    case 12:  // Q4_K: scales and minima 0..63, so weights are d * (s * code - 7.5 * m)
      return {256, 7.5f, 140, 257.0f};
    case 13:  // Q5_K
      return {256, 15.5f, 172, 528.0f};
    case 14:  // Q6_K: scales -128..127, codes -32..31
      return {256, 0.0f, 208, 1366.0f, true};
    default:
      throw std::invalid_argument("block_shape_of lacks type " + std::to_string(type));
  }
}

/// `count` random weights in ggml type `type` (0 F32, 1 F16, 30 BF16 and those of block_shape_of),
/// around 0 with about the given spread.
inline std::string random_weights(std::mt19937_64& random, std::uint32_t type, std::uint64_t count,
                                  float spread) {
  const auto uniform = [&] {
    return static_cast<float>(random() >> 40) / static_cast<float>(1 << 24);
  };
  std::string out;
  if (type <= 1 || type == 30) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const float weight = (uniform() * 2 - 1) * spread * 1.7f;
      const auto bits = number_bytes(weight);
      out += type == 0 ? bits : type == 1 ? number_bytes(half_bits(weight)) : bits.substr(2);
    }
    return out;
  }
  const block_shape shape = block_shape_of(type);
  for (std::uint64_t block = 0; block < count / shape.elements; ++block) {
    const float scale = spread * (0.5f + uniform()) / shape.spread;
    if (!shape.scale_last) out += number_bytes(half_bits(scale));
    if (shape.minimum != 0.0f) out += number_bytes(half_bits(shape.minimum * scale));
    for (std::uint32_t i = 0; i < shape.other_bytes; ++i)
      out += static_cast<char>(static_cast<unsigned char>(random() >> 56));
    if (shape.scale_last) out += number_bytes(half_bits(scale));
  }
  return out;
}

/// The letters GPT-2 writes each byte with, as UTF-8.
inline std::string letter_of_byte(unsigned byte) {
  unsigned code = byte;
  const auto itself = [](unsigned b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  };
  if (!itself(byte)) {
    code = 256;
    for (unsigned b = 0; b < byte; ++b) code += itself(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

struct tiny_vocabulary {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> kinds;
  std::vector<std::string> merges;
};

/// 0 <|endoftext|>, 1 <|im_start|>, 2 <|im_end|>, then byte b at 3 + b, then the merged tokens in
/// order.
inline tiny_vocabulary tiny_vocabulary_of_bytes() {
  tiny_vocabulary out{{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, {3, 3, 3}, {}};
  for (unsigned byte = 0; byte < 256; ++byte) out.tokens.push_back(letter_of_byte(byte));
  const std::string space = letter_of_byte(' ');
  for (const auto& [left, right] :
       std::vector<std::pair<std::string, std::string>>{{space, "t"},
                                                        {"h", "e"},
                                                        {space + "t", "he"},
                                                        {"i", "n"},
                                                        {"a", "n"},
                                                        {"an", "d"},
                                                        {"l", "l"},
                                                        {"he", "ll"},
                                                        {"hell", "o"},
                                                        {"a", "a"},
                                                        {"aa", "aa"}}) {
    out.merges.push_back(left + " " + right);
    out.tokens.push_back(left + right);
  }
  out.kinds.resize(out.tokens.size(), 1);
  return out;
}

/// Everything of the model but its tensors.
inline gguf_writer tiny_llama_metadata(const tiny_llama& model) {
  gguf_writer file;
  file.text("general.architecture", "llama").text("general.name", "tiny");
  file.u32("llama.block_count", model.layers).u32("llama.embedding_length", model.width);
  file.u32("llama.feed_forward_length", model.ffn_width).u32("llama.context_length", model.context);
  file.u32("llama.attention.head_count", model.heads)
      .u32("llama.attention.head_count_kv", model.kv_heads);
  file.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .f32("llama.rope.freq_base", model.rope_base);
  file.u32("llama.rope.dimension_count", model.head_length());
  if (model.head_dim != 0) {
    file.u32("llama.attention.key_length", model.head_dim);
    file.u32("llama.attention.value_length", model.head_dim);
  }
  const auto vocabulary = tiny_vocabulary_of_bytes();
  file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "smollm");
  file.texts("tokenizer.ggml.tokens", vocabulary.tokens)
      .i32s("tokenizer.ggml.token_type", vocabulary.kinds);
  file.texts("tokenizer.ggml.merges", vocabulary.merges);
  file.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2);
  file.boolean("tokenizer.ggml.add_bos_token", false);
  file.text("tokenizer.chat_template",
            "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' "
            "}}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
  return file;
}

/// Adds the model's tensors, in the usual order.
inline void add_tiny_llama_tensors(gguf_writer& file, const tiny_llama& model) {
  std::mt19937_64 random(model.seed);
  const std::uint64_t width = model.width, ffn_width = model.ffn_width;
  const std::uint64_t q_width = std::uint64_t{model.heads} * model.head_length(),
                      kv_width = std::uint64_t{model.kv_heads} * model.head_length(),
                      vocab = tiny_vocabulary_of_bytes().tokens.size();
  const std::uint32_t other = model.other_type.value_or(model.type);
  const auto matrix = [&](const std::string& name, std::uint64_t in, std::uint64_t out,
                          std::uint32_t type, float widened = 1.0f) {
    const float spread = widened / std::sqrt(static_cast<float>(in));
    file.tensor(name, {in, out}, type, random_weights(random, type, in * out, spread));
  };
  const auto norm = [&](const std::string& name) {
    std::string weights;
    for (std::uint64_t i = 0; i < width; ++i) {
      weights +=
          number_bytes(0.75f + static_cast<float>(random() >> 40) / static_cast<float>(1 << 25));
    }
    file.tensor(name, {width}, 0, weights);
  };
  matrix("token_embd.weight", width, vocab, other);
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    const auto prefix = "blk." + std::to_string(layer) + ".";
    norm(prefix + "attn_norm.weight");
    matrix(prefix + "attn_q.weight", width, q_width, model.type, model.query_spread);
    matrix(prefix + "attn_k.weight", width, kv_width, model.type);
    matrix(prefix + "attn_v.weight", width, kv_width, other);
    matrix(prefix + "attn_output.weight", q_width, width, model.type);
    norm(prefix + "ffn_norm.weight");
    matrix(prefix + "ffn_gate.weight", width, ffn_width, model.type);
    matrix(prefix + "ffn_up.weight", width, ffn_width, model.type);
    matrix(prefix + "ffn_down.weight", ffn_width, width, other);
  }
  norm("output_norm.weight");
  if (!model.tied) matrix("output.weight", width, vocab, model.type);
}

inline std::string tiny_llama_bytes(const tiny_llama& model = {}) {
  auto file = tiny_llama_metadata(model);
  add_tiny_llama_tensors(file, model);
  return file.bytes();
}

}  // namespace troupe::test
