// The chat template of a model file: a small, safe Jinja engine that covers what such templates
// use. It renders to spans, trusted (the template's own text, where special tokens may be parsed)
// or not (what users wrote); filters and concatenation keep the distinction. Bounded in output,
// steps and nesting.
#pragma once
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::gpu {

struct chat_turn {
  std::string role;
  std::string content;
};

struct template_span {
  std::string text;
  bool trusted = false;
};

/// What is wrong with a template (with line and column), or what the template itself raised.
class template_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class chat_template {
 public:
  /// Throws template_error. `bos` and `eos` are the texts of those tokens, visible to the template.
  static chat_template compile(std::string_view source, std::string bos = {}, std::string eos = {});
  chat_template(chat_template&&) noexcept;
  ~chat_template();

  /// Throws template_error (raise_exception in the template, unknown name or filter, a limit).
  /// Neighbouring spans of the same trust are merged. `now` is what strftime_now shows, in UTC.
  std::vector<template_span> render(
      const std::vector<chat_turn>& messages, bool add_generation_prompt,
      std::chrono::system_clock::time_point now = std::chrono::system_clock::now()) const;

 private:
  chat_template();
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe::gpu
