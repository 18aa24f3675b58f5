// The syntax tree of a template and its parser. Trees are immutable after parsing; their depth is
// bounded, so a recursive walk (or destructor) has bounded stack whatever the template says.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/model/jinja/value.hpp"

namespace troupe::gpu::jinja {

enum class expr_kind : std::uint8_t {
  literal,  ///< constant
  name,     ///< name
  list,
  tuple,        ///< items
  dict,         ///< items: key, value, key, value, ...
  attribute,    ///< items[0].name
  item,         ///< items[0][items[1]]
  slice,        ///< items[0][items[1]:items[2]:items[3]]; the last three may be null
  call,         ///< items[0](items[1...], named)
  filter,       ///< items[0] | name(items[1...], named)
  test,         ///< items[0] is name(items[1...]); negated for `is not`
  unary,        ///< name: "-", "+" or "not"
  binary,       ///< name: "+", "-", "*", "/", "//", "%", "**", "and", "or"
  compare,      ///< items[0] operators[0] items[1] operators[1] items[2] ...
  concat,       ///< items joined by ~
  conditional,  ///< items[0] if items[1] else items[2]; the last may be null
  captured      ///< the text of the filter or set block that ends
};

struct expr;
using expr_ref = std::unique_ptr<expr>;

struct expr {
  expr_kind kind{};
  std::uint32_t at = 0;
  int depth = 1;
  value constant;
  std::string name;
  std::vector<expr_ref> items;
  std::vector<std::pair<std::string, expr_ref>> named;
  std::vector<std::string> operators;
  bool negated = false;
};

enum class node_kind : std::uint8_t {
  data,       ///< text
  print,      ///< subject
  branch,     ///< if: branches, then body as the else
  loop,       ///< for target in subject if condition: inner, else otherwise
  assign,     ///< set target = subject
  capture,    ///< set target: inner; subject: filters of it, or null
  filtered,   ///< filter: subject of inner
  macro,      ///< name(parameters): inner
  call,       ///< call(parameters) subject: inner
  with,       ///< with parameters: inner
  block,      ///< inner alone
  stop_loop,  ///< break
  next_loop   ///< continue
};

struct node;
using body = std::vector<std::unique_ptr<node>>;

struct node {
  node_kind kind{};
  std::uint32_t at = 0;
  value text;        ///< of data
  std::string name;  ///< of a macro
  expr_ref target;   ///< a name, a tuple of targets, or an attribute of a namespace
  expr_ref subject;
  expr_ref condition;
  std::vector<std::pair<expr_ref, body>> branches;
  std::vector<std::pair<std::string, expr_ref>> parameters;  ///< the default may be null
  bool recursive = false;                                    ///< of a loop
  bool takes_caller = false, takes_varargs = false, takes_kwargs = false;  ///< of a macro
  body inner;
  body otherwise;
};

/// Throws template_error through `g`. `source` must be normalized (jinja_lexer.hpp).
body parse(guard& g, std::string_view source);

}  // namespace troupe::gpu::jinja
