#include "gpu/model/architecture.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace troupe::gpu {
namespace {

using enum weight_slot;

constexpr tensor_rule embedding{token_embedding, "token_embd.weight", extent::width, extent::vocab};
constexpr tensor_rule last_norm{output_norm, "output_norm.weight", extent::width};
/// Absent where the head is the embedding.
constexpr tensor_rule own_head{head, "output.weight", extent::width, extent::vocab, true};

constexpr tensor_rule usual_model[] = {embedding, last_norm, own_head};

template <std::size_t... Counts>
consteval auto joined(const std::array<tensor_rule, Counts>&... parts) {
  std::array<tensor_rule, (Counts + ...)> all{};
  auto at = all.begin();
  ((at = std::copy(parts.begin(), parts.end(), at)), ...);
  return all;
}

// In the order in which a layer uses them, which is also how files list them.
constexpr tensor_rule input_norm{attention_norm, "attn_norm.weight", extent::width},
    query{q, "attn_q.weight", extent::width, extent::query},
    key{k, "attn_k.weight", extent::width, extent::key},
    value{v, "attn_v.weight", extent::width, extent::key};
constexpr std::array behind_attention{
    tensor_rule{attention_output, "attn_output.weight", extent::query, extent::width},
    tensor_rule{ffn_norm, "ffn_norm.weight", extent::width},
    tensor_rule{gate, "ffn_gate.weight", extent::width, extent::ffn},
    tensor_rule{up, "ffn_up.weight", extent::width, extent::ffn},
    tensor_rule{down, "ffn_down.weight", extent::ffn, extent::width}};

constexpr auto llama_layer = joined(std::array{input_norm, query, key, value}, behind_attention);

// Llama's with biases on q, k and v.
constexpr auto qwen2_layer =
    joined(std::array{input_norm, query, tensor_rule{q_bias, "attn_q.bias", extent::query}, key,
                      tensor_rule{k_bias, "attn_k.bias", extent::key}, value,
                      tensor_rule{v_bias, "attn_v.bias", extent::key}},
           behind_attention);

// Llama's with a norm on each head of q and k, before the rotation.
constexpr auto qwen3_layer =
    joined(std::array{input_norm, query, tensor_rule{q_norm, "attn_q_norm.weight", extent::head},
                      key, tensor_rule{k_norm, "attn_k_norm.weight", extent::head}, value},
           behind_attention);

// Learned positions are added to the embedding, and every matrix has a bias.
constexpr tensor_rule gpt2_model[] = {
    embedding,
    {position_embedding, "position_embd.weight", extent::width, extent::context},
    last_norm,
    {output_norm_bias, "output_norm.bias", extent::width},
    own_head};

constexpr tensor_rule gpt2_layer[] = {
    {attention_norm, "attn_norm.weight", extent::width},
    {attention_norm_bias, "attn_norm.bias", extent::width},
    {qkv, "attn_qkv.weight", extent::width, extent::qkv},
    {qkv_bias, "attn_qkv.bias", extent::qkv},
    {attention_output, "attn_output.weight", extent::query, extent::width},
    {attention_output_bias, "attn_output.bias", extent::width},
    {ffn_norm, "ffn_norm.weight", extent::width},
    {ffn_norm_bias, "ffn_norm.bias", extent::width},
    {up, "ffn_up.weight", extent::width, extent::ffn},
    {up_bias, "ffn_up.bias", extent::ffn},
    {down, "ffn_down.weight", extent::ffn, extent::width},
    {down_bias, "ffn_down.bias", extent::width}};

constexpr std::string_view rms_epsilon = "attention.layer_norm_rms_epsilon";
constexpr std::string_view layer_epsilon = "attention.layer_norm_epsilon";

// Names and operations as llama.cpp's converters write and its graphs compute them.
constexpr architecture rows[] = {{"llama",
                                  ability::rms_norm,
                                  ability::rope_pairs,
                                  ability::silu_gate,
                                  {},
                                  rms_epsilon,
                                  usual_model,
                                  llama_layer},
                                 {"qwen2",
                                  ability::rms_norm,
                                  ability::rope_halves,
                                  ability::silu_gate,
                                  {ability::biases},
                                  rms_epsilon,
                                  usual_model,
                                  qwen2_layer},
                                 {"qwen3",
                                  ability::rms_norm,
                                  ability::rope_halves,
                                  ability::silu_gate,
                                  {ability::query_key_norms},
                                  rms_epsilon,
                                  usual_model,
                                  qwen3_layer},
                                 {"gemma",
                                  ability::rms_norm,
                                  ability::rope_halves,
                                  ability::gelu_gate,
                                  {ability::scaled_embedding},
                                  rms_epsilon,
                                  usual_model,
                                  llama_layer},
                                 {"gpt2",
                                  ability::layer_norm,
                                  ability::learned_positions,
                                  ability::gelu_alone,
                                  {ability::biases, ability::fused_qkv},
                                  layer_epsilon,
                                  gpt2_model,
                                  gpt2_layer}};

/// For sentences like "needs ..., which this device lacks".
const char* words_of(ability one) {
  switch (one) {
    case ability::rms_norm:
      return "RMS norms";
    case ability::layer_norm:
      return "layer norms";
    case ability::rope_pairs:
      return "rotary positions on neighbouring pairs";
    case ability::rope_halves:
      return "rotary positions on halves of a head (NEOX)";
    case ability::learned_positions:
      return "learned positions";
    case ability::silu_gate:
      return "a SiLU gate";
    case ability::gelu_gate:
      return "a GELU gate";
    case ability::gelu_alone:
      return "GELU without a gate";
    case ability::biases:
      return "biases";
    case ability::query_key_norms:
      return "a norm on each head of q and k";
    case ability::fused_qkv:
      return "q, k and v in one matrix";
    case ability::scaled_embedding:
      return "scaled embeddings";
    case ability::partial_rope:
      return "rotary positions on a part of a head";
    case ability::unequal_heads:
      return "keys and values of different lengths";
    case ability::count:
      break;
  }
  return "";
}

std::uint64_t size_of(extent one, const model_config& config) {
  switch (one) {
    case extent::none:
      break;
    case extent::width:
      return config.width;
    case extent::ffn:
      return config.ffn_width;
    case extent::head:
      return config.head_dim;
    case extent::query:
      return std::uint64_t{config.heads} * config.head_dim;
    case extent::key:
      return std::uint64_t{config.kv_heads} * config.head_dim;
    case extent::qkv:
      return (std::uint64_t{config.heads} + 2 * config.kv_heads) * config.head_dim;
    case extent::vocab:
      return config.vocab;
    case extent::context:
      return config.context;
  }
  return 0;
}

/// 64-bit sizes throughout: heads times their length may exceed 32 bits in a damaged file.
std::vector<model_tensor> tensors_of(std::span<const tensor_rule> rules, const std::string& prefix,
                                     const model_config& config) {
  std::vector<model_tensor> out;
  for (const auto& rule : rules) {
    model_tensor tensor{
        rule.slot, prefix + std::string(rule.name), {size_of(rule.in, config)}, rule.optional};
    if (rule.out != extent::none) tensor.shape.push_back(size_of(rule.out, config));
    out.push_back(std::move(tensor));
  }
  return out;
}

}  // namespace

ability_set architecture::needs() const {
  return ability_set(extras).add(norm).add(positions).add(activation);
}

std::span<const architecture> architectures() {
  return rows;
}

const architecture* find_architecture(std::string_view name, std::span<const architecture> among) {
  const auto found =
      std::find_if(among.begin(), among.end(), [&](const auto& row) { return row.name == name; });
  return found == among.end() ? nullptr : &*found;
}

std::string lacking(const ability_set& needed, const ability_set& computed) {
  // One word behind the loop, so that the last of several is joined with "and".
  std::string out, last;
  for (unsigned i = 0; i < static_cast<unsigned>(ability::count); ++i) {
    const auto one = static_cast<ability>(i);
    if (!needed.has(one) || computed.has(one)) continue;
    if (!last.empty()) out += (out.empty() ? "" : ", ") + last;
    last = words_of(one);
  }
  return out.empty() ? last : out + " and " + last;
}

std::vector<model_tensor> model_tensors(const model_config& config) {
  return tensors_of(config.family->model_tensors, "", config);
}

std::vector<model_tensor> layer_tensors(const model_config& config, std::uint32_t layer) {
  return tensors_of(config.family->layer_tensors, "blk." + std::to_string(layer) + ".", config);
}

std::vector<model_tensor> all_tensors(const model_config& config) {
  auto out = model_tensors(config);
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
    auto more = layer_tensors(config, layer);
    out.insert(out.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
  }
  return out;
}

}  // namespace troupe::gpu
