#include "gpu/model/chat_template.hpp"

namespace troupe::gpu {

struct chat_template::impl {};
chat_template::chat_template() = default;
chat_template::chat_template(chat_template&&) noexcept = default;
chat_template::~chat_template() = default;
chat_template chat_template::compile(std::string_view, std::string, std::string) { return {}; }
std::vector<template_span> chat_template::render(const std::vector<chat_turn>&, bool) const { return {}; }

}  // namespace troupe::gpu
