#include "tools/cli/inspect.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "config/runtime_config.hpp"
#include "gpu/model/chat_template.hpp"
#include "gpu/model/gguf/split_model.hpp"
#include "gpu/model/model_config.hpp"
#include "gpu/model/text/pre_tokenizer.hpp"
#include "gpu/model/text/tokenizer.hpp"

namespace troupe {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t shown_items = 8, shown_bytes = 120;

std::string escaped(std::string_view text, std::size_t most) {
  const auto cut =
      json(std::string(text.substr(0, most))).dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= most ? cut : cut + fmt::format("... ({} bytes)", text.size());
}

template <class T>
constexpr bool is_array = false;
template <class T>
constexpr bool is_array<std::vector<T>> = true;

/// A scalar, a short array, or the count and the first items of a long one.
json value_json(const gpu::gguf_value& value) {
  return std::visit(
      [](const auto& x) -> json {
        using type = std::decay_t<decltype(x)>;
        if constexpr (is_array<type>)
          if (x.size() > shown_items)
            return {{"count", x.size()}, {"first", type(x.begin(), x.begin() + shown_items)}};
        return json(x);
      },
      value);
}

std::string value_words(const gpu::gguf_value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return escaped(*text, shown_bytes);
  const auto shown = value_json(value);
  if (!shown.is_object()) return shown.dump(-1, ' ', false, json::error_handler_t::replace);
  auto first = shown["first"].dump(-1, ' ', false, json::error_handler_t::replace);
  first.back() = ',';
  return fmt::format("{} ...] ({} values)", first, shown["count"].get<std::size_t>());
}

std::string shape_text(const gpu::gguf_tensor& tensor) {
  std::string out;
  for (const auto dimension : tensor.shape)
    out += (out.empty() ? "[" : ", ") + std::to_string(dimension);
  return out + "]";
}

std::string type_name(gpu::tensor_type type) {
  const std::string name = gpu::name_of(type);
  return name == "unknown" ? "type " + std::to_string(static_cast<std::uint32_t>(type)) : name;
}

struct type_sum {
  std::uint64_t tensors = 0, bytes = 0;
  bool loadable = true;
};

std::map<std::string, type_sum> by_type(const gpu::gguf_file& file) {
  std::map<std::string, type_sum> out;
  for (const auto& tensor : file.tensors()) {
    auto& sum = out[type_name(tensor.type)];
    ++sum.tensors;
    sum.bytes += tensor.data.size();
    sum.loadable = gpu::loadable(tensor.type);
  }
  return out;
}

/// A string of the metadata; empty when absent or of another type.
std::string text_of(const gpu::gguf_file& file, const char* key) {
  const auto found = file.values().find(key);
  const auto* text =
      found == file.values().end() ? nullptr : std::get_if<std::string>(&found->second);
  return text == nullptr ? std::string() : *text;
}

/// What a part of the loader says about the file, without the path in front; empty when it accepts
/// it.
template <class Load>
std::string complaint(const gpu::gguf_file& file, Load load) {
  try {
    load();
    return {};
  } catch (const std::exception& e) {
    std::string what = e.what();
    const auto path = file.path() + ": ";
    return what.rfind(path, 0) == 0 ? what.substr(path.size()) : what;
  }
}

std::string template_problem(const gpu::gguf_file& file) {
  const auto source = text_of(file, "tokenizer.chat_template");
  return source.empty() ? "" : complaint(file, [&] { gpu::chat_template::compile(source); });
}

std::string tokenizer_words(const gpu::gguf_file& file) {
  const auto model = text_of(file, "tokenizer.ggml.model"),
             pre = text_of(file, "tokenizer.ggml.pre");
  const auto found = file.values().find("tokenizer.ggml.tokens");
  const auto* tokens = found == file.values().end()
                           ? nullptr
                           : std::get_if<std::vector<std::string>>(&found->second);
  return fmt::format(
      "{}, pre-tokenizer {}, {} tokens", model.empty() ? "none" : escaped(model, shown_bytes),
      pre.empty() ? "none" : escaped(pre, shown_bytes), tokens == nullptr ? 0 : tokens->size());
}

}  // namespace

std::vector<std::string> unsupported_parts(const gpu::gguf_file& file) {
  // What a part seems to lack is in the other parts, so nothing else is said about it.
  std::string split;
  const auto unreadable = complaint(file, [&] { split = gpu::split_refusal(file); });
  if (!split.empty() || !unreadable.empty()) return {split.empty() ? unreadable : split};
  std::vector<std::string> out;
  const auto add = [&](const std::string& what) {
    if (!what.empty() && std::find(out.begin(), out.end(), what) == out.end()) out.push_back(what);
  };
  for (const auto& [name, sum] : by_type(file))
    if (!sum.loadable)
      add(fmt::format("{} tensor(s) of type {}: supported are {}", sum.tensors, name,
                      gpu::loadable_names()));
  add(complaint(file, [&] { gpu::model_config::from_gguf(file); }));
  add(complaint(file, [&] { gpu::tokenizer::from_gguf(file); }));
  if (const auto problem = template_problem(file); !problem.empty())
    add("tokenizer.chat_template: " + problem);
  return out;
}

std::string inspect_words(const gpu::gguf_file& file) {
  std::string out = fmt::format(
      "file          {}: GGUF version {}, {}, {} metadata keys, {} tensors\n", file.path(),
      file.version(), format_size(file.size_bytes()), file.values().size(), file.tensors().size());
  out += fmt::format("architecture  {}, name {}\n",
                     escaped(text_of(file, "general.architecture"), shown_bytes),
                     escaped(text_of(file, "general.name"), shown_bytes));
  out += "tokenizer     " + tokenizer_words(file) + "\n";
  const auto source = text_of(file, "tokenizer.chat_template");
  out += source.empty()
             ? "template      none; ChatML is used\n"
             : fmt::format("template      {} bytes, {}\n", source.size(),
                           template_problem(file).empty() ? "compiles" : "does not compile");
  out += "metadata\n";
  for (const auto& [key, value] : file.values())
    out += fmt::format("  {} ({}) = {}\n", escaped(key, shown_bytes), gpu::kind_of(value),
                       value_words(value));
  out += "tensors\n";
  for (const auto& tensor : file.tensors())
    out += fmt::format(
        "  {} {} {} {}\n", escaped(tensor.name, shown_bytes), type_name(tensor.type),
        shape_text(tensor),
        gpu::block_bytes(tensor.type) == 0 ? "of unknown size" : format_size(tensor.data.size()));
  out += "tensor types\n";
  for (const auto& [name, sum] : by_type(file))
    out += fmt::format("  {}: {} tensors, {}{}\n", name, sum.tensors, format_size(sum.bytes),
                       sum.loadable ? "" : ", not supported");
  if (!source.empty()) out += "chat template\n" + escaped(source, source.size()) + "\n";
  const auto missing = unsupported_parts(file);
  out += missing.empty() ? "supported: troupe serve can load this file\n" : "not supported\n";
  for (const auto& one : missing) out += "  " + one + "\n";
  return out;
}

std::string inspect_json(const gpu::gguf_file& file) {
  json out{{"file", file.path()},
           {"gguf_version", file.version()},
           {"file_bytes", file.size_bytes()},
           {"metadata_keys", file.values().size()},
           {"tensor_count", file.tensors().size()},
           {"architecture", text_of(file, "general.architecture")},
           {"name", text_of(file, "general.name")},
           {"tokenizer",
            {{"model", text_of(file, "tokenizer.ggml.model")},
             {"pre", text_of(file, "tokenizer.ggml.pre")}}}};
  const auto source = text_of(file, "tokenizer.chat_template");
  if (!source.empty()) {
    const auto problem = template_problem(file);
    out["chat_template"] = {{"source", source}, {"compiles", problem.empty()}};
    if (!problem.empty()) out["chat_template"]["problem"] = problem;
  }
  for (const auto& [key, value] : file.values()) out["metadata"][key] = value_json(value);
  out["tensors"] = json::array();
  for (const auto& tensor : file.tensors())
    out["tensors"].push_back({{"name", tensor.name},
                              {"type", type_name(tensor.type)},
                              {"shape", tensor.shape},
                              {"bytes", tensor.data.size()}});
  for (const auto& [name, sum] : by_type(file))
    out["types"][name] = {
        {"tensors", sum.tensors}, {"bytes", sum.bytes}, {"supported", sum.loadable}};
  out["unsupported"] = unsupported_parts(file);
  out["supported"] = out["unsupported"].empty();
  return out.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

inspect_command::inspect_command(CLI::App& app)
    : app_(app.add_subcommand("inspect",
                              "what the GGUF file MODEL holds, and what of it cannot be served")) {
  app_->add_option("model")->description("GGUF file")->type_name("MODEL");
  app_->add_flag("--json")->description(
      "JSON instead of words (the default when not on a terminal)");
}

bool inspect_command::given() const {
  return app_->parsed();
}

early_exit inspect_command::run(bool on_terminal) const {
  const auto words = app_->get_option("model")->results();
  if (words.empty()) return {2, "troupe: MODEL: no model file given\n"};
  try {
    const auto file = gpu::gguf_file::open_any(words.back());
    return {0, app_->get_option("--json")->count() > 0 || !on_terminal ? inspect_json(file)
                                                                       : inspect_words(file)};
  } catch (const std::exception& e) {
    return {2, std::string("troupe: ") + e.what() + "\n"};
  }
}

}  // namespace troupe
