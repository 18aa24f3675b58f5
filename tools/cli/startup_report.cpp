#include "tools/cli/startup_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/log.hpp"

namespace troupe {
namespace {

struct numbers {
  std::uint64_t kv_bytes_per_token, pool_bytes, pool_tokens;
  std::uint32_t context;
  double full_length_sequences;
  std::uint64_t table_bytes;
};

numbers compute(const startup_facts& facts) {
  numbers n{};
  const auto& kv = facts.device.kv;
  n.kv_bytes_per_token = kv.token_bytes();
  n.pool_bytes = kv.pool_bytes();
  n.pool_tokens = kv.pool_tokens();
  n.context = facts.limits.effective_context();
  n.full_length_sequences = static_cast<double>(n.pool_tokens) / n.context;
  const std::uint64_t entries = (n.context + kv.block_size - 1) / kv.block_size;
  n.table_bytes = entries * kv.groups.size() * sizeof(core::block_id) * facts.limits.max_num_seqs;
  return n;
}

std::string end_token_names(const startup_facts& facts) {
  std::string out;
  for (const auto token : facts.limits.end_tokens)
    out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", token,
                       facts.model.vocabulary.bytes(token));
  return out;
}

}  // namespace

double block_table_share(const startup_facts& facts) {
  const auto n = compute(facts);
  return static_cast<double>(n.table_bytes) / static_cast<double>(n.pool_bytes);
}

std::string context_warning(const startup_facts& facts) {
  const auto asked = facts.config.max_model_len, trained = facts.model.config.context;
  if (asked <= trained) return {};
  return fmt::format(
      "--max-model-len {} is beyond the {} tokens the model was trained for; {} are in force",
      asked, trained, facts.limits.effective_context());
}

std::string startup_words(const startup_facts& facts) {
  const auto n = compute(facts);
  const auto& model = facts.model.config;
  const auto& limits = facts.limits;
  const auto& kv = facts.device.kv;
  const double share = block_table_share(facts) * 100;
  std::string out;
  out += fmt::format(
      "model      {}: {} layers, width {}, {} heads, {} kv heads, vocabulary {}, context {}\n",
      model.name, model.layers, model.width, model.heads, model.kv_heads, model.vocab,
      model.context);
  out += fmt::format("weights    {} file, {} resident as repacked, loaded in {:.2f} s\n",
                     format_size(model.file_bytes), format_size(facts.device.weight_bytes),
                     facts.load_seconds);
  out += fmt::format("device     {} ({}), {} threads\n", facts.device.name, facts.device.isa,
                     facts.device.threads);
  out += fmt::format("kv cache   {} bytes a token = {} ({})\n", n.kv_bytes_per_token,
                     kv.token_formula(), kv.types_name());
  out += fmt::format("           {} blocks of {} tokens = {} tokens, {}\n", kv.num_blocks(),
                     kv.block_size, n.pool_tokens, format_size(n.pool_bytes));
  out +=
      fmt::format("context    {} tokens effective; {:.1f} sequences of full length fit the pool\n",
                  n.context, n.full_length_sequences);
  if (const auto cut = context_warning(facts); !cut.empty())
    out += "           WARNING: " + cut + "\n";
  out += fmt::format("tables     {} of block tables at {} sequences, {:.2f} % of the pool{}\n",
                     format_size(n.table_bytes), limits.max_num_seqs, share,
                     share > 10 ? "  WARNING: above 10 %, use larger blocks" : "");
  out += fmt::format(
      "limits     {} sequences, {} tokens a step, {} ms a step, {} queued, {} connections\n",
      limits.max_num_seqs, limits.max_num_batched_tokens, limits.max_step_us / 1000,
      limits.max_num_queued_reqs, facts.config.max_connections);
  out += fmt::format("deadlines  queue {} s, first token {} s, total {} s (0 = none)\n",
                     facts.config.queue_timeout_s, facts.config.first_token_timeout_s,
                     facts.config.request_timeout_s);
  out += fmt::format(
      "stops      end tokens {}; stop strings, stop token ids, min and max tokens by request\n",
      end_token_names(facts));
  return out;
}

std::string startup_json(const startup_facts& facts) {
  const auto n = compute(facts);
  const auto& model = facts.model.config;
  std::string ends;
  for (const auto token : facts.limits.end_tokens)
    ends += (ends.empty() ? "" : " ") + std::to_string(token);
  const auto u = [](std::uint64_t x) { return log_value{x}; };
  return to_json(log_fields{{"event", std::string("starting")},
                            {"model", model.name},
                            {"file_bytes", u(model.file_bytes)},
                            {"weight_bytes", u(facts.device.weight_bytes)},
                            {"load_seconds", facts.load_seconds},
                            {"model_seconds", facts.model_seconds},
                            {"weight_seconds", facts.device.weights.seconds},
                            {"isa", facts.device.isa},
                            {"threads", u(facts.device.threads)},
                            {"layers", u(model.layers)},
                            {"kv_heads", u(model.kv_heads)},
                            {"head_dim", u(model.head_dim)},
                            {"kv_cache_dtype", facts.device.kv.types_name()},
                            {"kv_bytes_per_token", u(n.kv_bytes_per_token)},
                            {"block_size", u(facts.device.kv.block_size)},
                            {"num_kv_blocks", u(facts.device.kv.num_blocks())},
                            {"pool_tokens", u(n.pool_tokens)},
                            {"pool_bytes", u(n.pool_bytes)},
                            {"effective_context", u(n.context)},
                            {"trained_context", u(model.context)},
                            {"full_length_sequences", n.full_length_sequences},
                            {"block_table_bytes", u(n.table_bytes)},
                            {"block_table_share", block_table_share(facts)},
                            {"max_num_seqs", u(facts.limits.max_num_seqs)},
                            {"max_num_batched_tokens", u(facts.limits.max_num_batched_tokens)},
                            {"max_step_ms", u(facts.limits.max_step_us / 1000)},
                            {"max_num_queued_reqs", u(facts.limits.max_num_queued_reqs)},
                            {"queue_timeout_s", facts.config.queue_timeout_s},
                            {"first_token_timeout_s", facts.config.first_token_timeout_s},
                            {"request_timeout_s", facts.config.request_timeout_s},
                            {"end_tokens", ends}});
}

}  // namespace troupe
