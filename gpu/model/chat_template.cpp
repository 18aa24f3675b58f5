#include "gpu/model/chat_template.hpp"

#include <algorithm>

#include "gpu/model/jinja/evaluator.hpp"
#include "gpu/model/jinja/lexer.hpp"
#include "gpu/model/jinja/parser.hpp"

namespace troupe::gpu {
namespace {

constexpr std::size_t source_bytes_max = 1u << 20;

/// Roles a request may use are checked where it enters; only these are taken for the template's own
/// words here.
bool is_known_role(std::string_view role) {
  for (const std::string_view known :
       {"system", "user", "assistant", "tool", "developer", "function", "ipython"}) {
    if (role == known) return true;
  }
  return false;
}

jinja::value message_list(jinja::guard& g, const std::vector<chat_turn>& messages) {
  const auto key = [](std::string_view name) {
    return std::make_shared<const jinja::text>(name, true);
  };
  const auto role = key("role"), content = key("content");
  std::vector<jinja::value> out;
  for (const auto& turn : messages) {
    std::vector<std::pair<jinja::value, jinja::value>> entries;
    entries.emplace_back(role,
                         jinja::make_text(g, jinja::text(turn.role, is_known_role(turn.role))));
    entries.emplace_back(content, jinja::make_text(g, jinja::text(turn.content, false)));
    out.push_back(jinja::make_dict(g, std::move(entries)));
  }
  return jinja::make_list(g, std::move(out));
}

}  // namespace

struct chat_template::impl {
  std::string source;  ///< normalized
  std::string bos, eos;
  jinja::body statements;
};

chat_template::chat_template() : impl_(std::make_unique<impl>()) {}
chat_template::chat_template(chat_template&&) noexcept = default;
chat_template::~chat_template() = default;

chat_template chat_template::compile(std::string_view source, std::string bos, std::string eos) {
  if (source.size() > source_bytes_max) {
    throw template_error("the template has " + std::to_string(source.size()) + " bytes, at most " +
                         std::to_string(source_bytes_max) + " are allowed");
  }
  chat_template out;
  out.impl_->source = jinja::normalized(source);
  out.impl_->bos = std::move(bos);
  out.impl_->eos = std::move(eos);
  jinja::guard g(out.impl_->source);
  out.impl_->statements = jinja::parse(g, out.impl_->source);
  return out;
}

std::vector<template_span> chat_template::render(const std::vector<chat_turn>& messages,
                                                 bool add_generation_prompt,
                                                 std::chrono::system_clock::time_point now) const {
  jinja::guard g(impl_->source);
  g.now = std::chrono::system_clock::to_time_t(now);
  jinja::evaluator::names globals;
  globals.emplace_back("messages", message_list(g, messages));
  globals.emplace_back("add_generation_prompt", add_generation_prompt);
  globals.emplace_back("bos_token", jinja::trusted_text(g, impl_->bos));
  globals.emplace_back("eos_token", jinja::trusted_text(g, impl_->eos));
  // Templates ask `tools is not none` as often as `tools is defined`.
  globals.emplace_back("tools", jinja::none{});
  globals.emplace_back("documents", jinja::none{});
  jinja::evaluator run(g, std::move(globals));
  const auto rendered = run.render(impl_->statements);
  std::vector<template_span> out;
  rendered.for_each_run(0, rendered.size(), [&](std::string_view bytes, bool trusted) {
    out.push_back({std::string(bytes), trusted});
  });
  return out;
}

}  // namespace troupe::gpu
