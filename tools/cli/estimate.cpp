#include "tools/cli/estimate.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>

#include "config/log.hpp"
#include "gpu/host_limits.hpp"
#include "gpu/make_backend.hpp"
#include "gpu/model/architecture.hpp"
#include "gpu/model/gguf/gguf.hpp"
#include "gpu/model/gguf/split_model.hpp"
#include "tools/cli/memory_plan.hpp"

namespace troupe {
namespace {

struct number_option {
  const char* name;
  std::uint64_t low, high;
  const char* meaning;
};

// The highest values are those a model file may hold.
constexpr std::array numbers{
    number_option{"max-model-len", 1, 1 << 24,
                  "tokens of a sequence [the model's context; 4096 from dimensions]"},
    number_option{"max-num-seqs", 1, 4096, "sequences at once [32]"},
    number_option{"block-size", 16, 32, "tokens of a KV block, 16 or 32 [16]"},
    number_option{"layers", 1, 1024, "instead of MODEL, with --width and --heads"},
    number_option{"width", 1, 1 << 16, "embedding length"},
    number_option{"heads", 1, 1024, "query heads"},
    number_option{"kv-heads", 1, 1024, "key and value heads [--heads]"},
    number_option{"head-dim", 1, 1 << 12, "values of a head [--width / --heads]"},
    number_option{"vocab", 1, 1 << 22,
                  "tokens of the vocabulary; with --ffn the weights are estimated too"},
    number_option{"ffn", 1, 1 << 18, "feed-forward length"}};

// For the arithmetic alone, beside those that a device stores.
constexpr std::array kv_types{gpu::kv_f16,      gpu::kv_bf16,     gpu::kv_f32, gpu::kv_int8,
                              gpu::kv_fp8_e4m3, gpu::kv_fp8_e5m2, gpu::kv_int4};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char ch) { return std::tolower(ch); });
  return text;
}

std::string kv_type_names() {
  std::string out;
  for (const auto& type : kv_types) out += (out.empty() ? "" : ", ") + std::string(type.name);
  return out;
}

std::string weight_type_names() {
  std::string out;
  for (const auto type : gpu::loadable_types())
    out += (out.empty() ? "" : ", ") + lower(gpu::name_of(type));
  return out;
}

bool times(std::uint64_t& product, std::uint64_t factor) {
  return !__builtin_mul_overflow(product, factor, &product);
}

/// What the command line said, and what is wrong with it.
class arguments {
 public:
  explicit arguments(const CLI::App& app) : app_(app) {
    for (const auto& one : numbers) read(one);
  }

  std::string text(const std::string& name) const {
    const auto words = app_.get_option(name)->results();
    return words.empty() ? std::string() : words.back();
  }
  std::uint64_t number(const std::string& name, std::uint64_t otherwise) const {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? otherwise : found->second;
  }
  bool has(const std::string& name) const { return app_.get_option("--" + name)->count() > 0; }
  void problem(const std::string& what) { problems_.push_back(what); }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void read(const number_option& one) {
    const auto given = text(std::string("--") + one.name);
    if (given.empty() && !has(one.name)) return;
    std::uint64_t value = 0;
    const auto end = given.data() + given.size();
    const auto result = std::from_chars(given.data(), end, value);
    const auto range = fmt::format("{}..{}", one.low, one.high);
    if (result.ptr != end || result.ec == std::errc::invalid_argument)
      problem(fmt::format("--{}: '{}' is not a whole number, {}", one.name, given, range));
    else if (result.ec != std::errc{} || value < one.low || value > one.high)
      problem(fmt::format("--{}: {} is outside {}", one.name, given, range));
    else if (std::string_view(one.name) == "block-size" && value != 16 && value != 32)
      problem(fmt::format("--block-size: {} is not 16 or 32", given));
    else
      numbers_[one.name] = value;
  }

  const CLI::App& app_;
  std::map<std::string, std::uint64_t> numbers_;
  std::vector<std::string> problems_;
};

/// Dimensions of any architecture whose metadata follows the usual names; the weights as the device
/// would repack them when it can load the file.
void read_model(const std::string& path, memory_estimate& e) {
  const auto file = gpu::gguf_file::open_any(path);
  // The sizes of one part would be reported as those of the model.
  if (const auto split = gpu::split_refusal(file); !split.empty()) file.fail(split);
  namespace keys = gpu::keys;
  const auto prefix = file.get_string("general.architecture") + ".";
  const auto positive = [&](const std::string& key, std::uint64_t value) {
    if (value == 0 || value > 1u << 24)
      file.fail(key + ": " + std::to_string(value) + ", expected 1 to 16777216");
    return value;
  };
  const auto get = [&](std::string_view what) {
    const auto key = prefix + std::string(what);
    return positive(key, file.get_uint(key));
  };
  const auto find = [&](std::string_view what, std::uint64_t otherwise) {
    const auto key = prefix + std::string(what);
    return positive(key, file.find_uint(key).value_or(otherwise));
  };
  const auto* name = file.find_string("general.name");
  e.name = name != nullptr && !name->empty() ? *name : path;
  e.layers = get(keys::layers);
  e.width = get(keys::width);
  e.heads = get(keys::heads);
  e.kv_heads = find(keys::kv_heads, e.heads);
  e.head_dim = find(keys::key_length, std::max<std::uint64_t>(1, e.width / e.heads));
  e.ffn = file.find_uint(prefix + std::string(keys::ffn_width)).value_or(0);
  const auto trained = get(keys::context);
  e.context = e.context == 0 ? trained : std::min(e.context, trained);
  const auto* tokens = file.find_strings("tokenizer.ggml.tokens");
  e.vocab = tokens == nullptr ? 0 : tokens->size();
  e.file_bytes = file.size_bytes();
  try {
    const auto loadable = gpu::gguf_file::open(path);
    gpu::model_config::from_gguf(loadable);  // throws for what the server would refuse
    e.weight_bytes = gpu::choose_device("auto").weight_bytes(loadable.tensors());
    e.weight_source = "resident as repacked";
  } catch (const gpu::model_error&) {
    e.weight_bytes = e.file_bytes;
    e.weight_source = "taken as resident: this build cannot load the file, see troupe inspect";
  }
}

void read_dimensions(arguments& a, memory_estimate& e) {
  for (const char* name : {"layers", "width", "heads"})
    if (!a.has(name))
      a.problem(std::string("--") + name +
                ": missing; without MODEL, --layers, --width and --heads are needed");
  e.layers = a.number("layers", 1);
  e.width = a.number("width", 1);
  e.heads = a.number("heads", 1);
  e.kv_heads = a.number("kv-heads", e.heads);
  if (!a.problems().empty()) return;
  if (e.heads % e.kv_heads != 0)
    a.problem(fmt::format("--kv-heads: {} does not divide --heads {}", e.kv_heads, e.heads));
  if (!a.has("head-dim") && e.width % e.heads != 0)
    a.problem(
        fmt::format("--heads: {} does not divide --width {}; give --head-dim", e.heads, e.width));
  e.head_dim = a.number("head-dim", e.width / e.heads);
  e.vocab = a.number("vocab", 0);
  e.ffn = a.number("ffn", 0);
  if (e.context == 0) e.context = 4096;
  const auto type = a.text("--weight-type").empty() ? "f16" : lower(a.text("--weight-type"));
  const auto weight_types = gpu::loadable_types();
  const auto found = std::find_if(weight_types.begin(), weight_types.end(),
                                  [&](auto one) { return lower(gpu::name_of(one)) == type; });
  if (found == weight_types.end())
    return a.problem("--weight-type: '" + type + "' is not one of " + weight_type_names());
  if (e.vocab == 0 || e.ffn == 0) return;
  gpu::model_config shape;
  shape.family = &gpu::architectures().front();
  shape.layers = static_cast<std::uint32_t>(e.layers);
  shape.width = static_cast<std::uint32_t>(e.width);
  shape.ffn_width = static_cast<std::uint32_t>(e.ffn);
  shape.heads = static_cast<std::uint32_t>(e.heads);
  shape.kv_heads = static_cast<std::uint32_t>(e.kv_heads);
  shape.head_dim = static_cast<std::uint32_t>(e.head_dim);
  shape.vocab = static_cast<std::uint32_t>(e.vocab);
  // Each tensor as the device repacks it; at the highest values above the sum stays below 2^53.
  std::vector<gpu::gguf_tensor> tensors;
  std::uint64_t parameters = 0;
  for (const auto& one : gpu::all_tensors(shape)) {
    tensors.push_back({one.name, one.is_vector() ? gpu::tensor_type::f32 : *found, one.shape, {}});
    parameters += one.shape[0] * tensors.back().rows();
  }
  e.weight_bytes = gpu::choose_device("auto").weight_bytes(tensors);
  e.weight_source = fmt::format(
      "repacked from {}: {} parameters of a Llama with an output head of "
      "its own",
      type, parameters);
}

gpu::kv_dtype read_kv_type(arguments& a, const std::string& option,
                           const gpu::kv_dtype& otherwise) {
  const auto name = a.text(option);
  if (name.empty() || name == "auto") return otherwise;
  const auto found = std::find_if(kv_types.begin(), kv_types.end(),
                                  [&](const auto& type) { return type.name == name; });
  if (found != kv_types.end()) return *found;
  a.problem(option + ": '" + name + "' is not one of auto, " + kv_type_names());
  return otherwise;
}

}  // namespace

bool memory_estimate::complete() {
  const auto found = gpu::kv_token_bytes(kv_types, layers - precise_layers, kv_heads, head_dim);
  const auto more = gpu::kv_token_bytes(gpu::kv_f16, precise_layers, kv_heads, head_dim);
  bool fits = found && more && !__builtin_add_overflow(*found, *more, &token_bytes);
  if (!fits) token_bytes = 0;
  blocks_per_sequence = (context + block_size - 1) / block_size;
  sequence_bytes = token_bytes;
  fits = fits && times(sequence_bytes, blocks_per_sequence * block_size);
  pool_blocks = blocks_per_sequence * sequences;
  pool_bytes = sequence_bytes;
  fits = fits && times(pool_bytes, sequences);
  table_bytes = pool_blocks * sizeof(std::uint32_t);
  total_bytes = pool_bytes;
  for (const auto part : {weight_bytes.value_or(0), table_bytes, working_memory})
    fits = fits && !__builtin_add_overflow(total_bytes, part, &total_bytes);
  return fits;
}

std::string estimate_words(const memory_estimate& e, std::uint64_t available) {
  std::string out = fmt::format("model       {}{} layers, width {}, {} heads, {} kv heads of {}\n",
                                e.name.empty() ? "" : e.name + ": ", e.layers, e.width, e.heads,
                                e.kv_heads, e.head_dim);
  if (e.file_bytes)
    out += fmt::format("weights     {} file, {} {}\n", format_size(*e.file_bytes),
                       format_size(*e.weight_bytes), e.weight_source);
  else if (e.weight_bytes)
    out += fmt::format("weights     {} {}\n", format_size(*e.weight_bytes), e.weight_source);
  else
    out += "weights     not counted: give --vocab and --ffn\n";
  out += fmt::format("kv a token  {} = {} ({})\n", format_size(e.token_bytes),
                     gpu::kv_token_formula(e.kv_types, e.layers - e.precise_layers, gpu::kv_f16,
                                           e.precise_layers, e.kv_heads, e.head_dim),
                     e.kv_types.name());
  out += fmt::format("a sequence  {} for {} tokens, {} blocks of {}\n",
                     format_size(e.sequence_bytes), e.context, e.blocks_per_sequence, e.block_size);
  out += fmt::format("pool        {} for {} sequences of that length, {} blocks\n",
                     format_size(e.pool_bytes), e.sequences, e.pool_blocks);
  out +=
      fmt::format("tables      {} of block tables, 4 bytes a block\n", format_size(e.table_bytes));
  out +=
      fmt::format("total       {} with {} to work in; this process may use {}: {}\n",
                  format_size(e.total_bytes), format_size(working_memory), format_size(available),
                  e.total_bytes <= available ? "it fits" : "it does not fit");
  if (e.total_bytes <= available) return out;
  const auto others = e.total_bytes - e.pool_bytes;
  const auto tokens =
      available > others ? (available - others) / (e.token_bytes * e.block_size) * e.block_size : 0;
  return out + fmt::format("            what is left for the pool holds {} tokens\n", tokens);
}

std::string estimate_json(const memory_estimate& e, std::uint64_t available) {
  log_fields out{{"model", e.name},
                 {"layers", e.layers},
                 {"width", e.width},
                 {"heads", e.heads},
                 {"kv_heads", e.kv_heads},
                 {"head_dim", e.head_dim},
                 {"vocabulary", e.vocab},
                 {"ffn", e.ffn},
                 {"context", e.context},
                 {"sequences", e.sequences},
                 {"block_size", e.block_size},
                 {"kv_cache_dtype", e.kv_types.name()},
                 {"kv_cache_precise_layers", e.precise_layers}};
  if (e.file_bytes) out.push_back({"file_bytes", *e.file_bytes});
  if (e.weight_bytes) out.push_back({"weight_bytes", *e.weight_bytes});
  for (const auto& [key, value] :
       {std::pair<const char*, std::uint64_t>{"kv_bytes_per_token", e.token_bytes},
        {"kv_bytes_per_sequence", e.sequence_bytes},
        {"pool_blocks", e.pool_blocks},
        {"pool_bytes", e.pool_bytes},
        {"block_table_bytes", e.table_bytes},
        {"working_bytes", working_memory},
        {"total_bytes", e.total_bytes},
        {"available_bytes", available}})
    out.push_back({key, value});
  out.push_back({"fits", e.total_bytes <= available});
  return to_json(out) + "\n";
}

estimate_command::estimate_command(CLI::App& app)
    : app_(app.add_subcommand("estimate", "memory of MODEL, or of given dimensions")) {
  app_->add_option("model")->description("GGUF file")->type_name("MODEL");
  for (const auto& one : numbers)
    app_->add_option(std::string("--") + one.name)->description(one.meaning)->type_name("N");
  app_->add_option("--kv-cache-dtype")
      ->description("of the cache: " + kv_type_names() + " [f16, the one that serve uses]");
  app_->add_option("--kv-cache-dtype-k")->description("of K alone");
  app_->add_option("--kv-cache-dtype-v")->description("of V alone");
  app_->add_option("--kv-cache-precise-layers")
      ->description("so many of the first and last layers stay f16 [0,0]")
      ->type_name("FIRST,LAST");
  app_->add_option("--weight-type")
      ->description("with dimensions: " + weight_type_names() + " [f16]");
  app_->add_flag("--json")->description(
      "JSON instead of words (the default when not on a terminal)");
  for (auto* option : app_->get_options())
    if (!option->get_lnames().empty() && option->get_lnames()[0] != "help")
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app_->footer(
      "bytes of a token  = 2 (K and V) x layers x kv heads x head dim x bytes of a value; int8, "
      "fp8 "
      "and int4 have\n                    4 bytes more for each head's scale\n"
      "bytes of the pool = those x tokens of a sequence, rounded up to blocks, x sequences\n"
      "Dimensions come from the file's metadata (ARCH.block_count, attention.head_count_kv, ...); "
      "memory this\n"
      "process may use from /proc/meminfo and the cgroup's limit, whichever is less.");
}

bool estimate_command::given() const {
  return app_->parsed();
}

early_exit estimate_command::run(bool on_terminal) const {
  arguments a(*app_);
  memory_estimate e;
  const auto model = a.text("model");
  e.context = a.number("max-model-len", 0);
  e.sequences = a.number("max-num-seqs", runtime_config{}.max_num_seqs);
  e.block_size = a.number("block-size", runtime_config{}.block_size);
  const auto both = read_kv_type(a, "--kv-cache-dtype", gpu::kv_f16);
  e.kv_types = {read_kv_type(a, "--kv-cache-dtype-k", both),
                read_kv_type(a, "--kv-cache-dtype-v", both)};
  if (model.empty()) {
    read_dimensions(a, e);
  } else {
    for (const char* name :
         {"layers", "width", "heads", "kv-heads", "head-dim", "vocab", "ffn", "weight-type"})
      if (a.has(name))
        a.problem(std::string("--") + name + ": not beside MODEL, which says it itself");
  }
  try {
    if (a.problems().empty() && !model.empty()) read_model(model, e);
    const auto ends = gpu::read_precise_layers(a.text("--kv-cache-precise-layers"), e.layers);
    e.precise_layers = ends.first + ends.last;
  } catch (const std::exception& error) {
    a.problem(error.what());
  }
  if (a.problems().empty() && !e.complete())
    a.problem("the bytes of this many tokens do not fit 64 bits");
  if (!a.problems().empty()) {
    std::string text;
    for (const auto& problem : a.problems()) text += "troupe: " + problem + "\n";
    return {2, text};
  }
  const auto available = gpu::available_memory();
  const bool json = app_->get_option("--json")->count() > 0 || !on_terminal;
  return {0, json ? estimate_json(e, available) : estimate_words(e, available)};
}

}  // namespace troupe
