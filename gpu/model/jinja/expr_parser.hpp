// Expressions out of tokens, by Jinja's precedences. The statement parser drives it.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/model/jinja/lexer.hpp"
#include "gpu/model/jinja/parser.hpp"

namespace troupe::gpu::jinja {

/// Words of the grammar, which are no names.
bool is_reserved(std::string_view);

class expr_parser {
 public:
  expr_parser(guard& g, std::vector<token> tokens) : g_(g), tokens_(std::move(tokens)) {}

  const token& peek(std::size_t ahead = 0) const;
  token take();
  bool at_name(std::string_view word) const;
  bool at_symbol(std::string_view symbol) const;
  bool take_name(std::string_view word);
  bool take_symbol(std::string_view symbol);
  void expect_symbol(std::string_view symbol);
  std::string expect_identifier(const char* what);
  [[noreturn]] void fail_at(const token&, const std::string& what);
  [[noreturn]] void fail_unexpected(const char* expected);

  /// A full expression, with `a if b else c`.
  expr_ref expression();
  /// The same without a conditional at the top, as for's and if's own `if` need.
  expr_ref plain_expression();
  /// One expression, or a tuple of them without brackets.
  expr_ref expression_or_tuple();
  /// What can be assigned to.
  expr_ref target();
  /// `name | name(...)` after a filter block's or set block's head; the first | may be left out.
  expr_ref filters_of_captured();
  /// Which of caller, varargs and kwargs were read since this was emptied.
  std::set<std::string, std::less<>> implied_names;

  guard& limits() { return g_; }

 private:
  expr_ref make(expr_kind, std::uint32_t at);
  /// Adds a child and keeps the depth bounded.
  void adopt(expr& parent, expr_ref child);
  expr_ref binary(const token& op, expr_ref left, expr_ref right);
  expr_ref binary_level(int level);
  expr_ref inverted();
  expr_ref comparison();
  expr_ref concatenation();
  expr_ref unary(bool with_filters);
  expr_ref primary();
  expr_ref string_literal();
  expr_ref number_literal();
  expr_ref bracketed_tuple();
  expr_ref list_literal();
  expr_ref dict_literal();
  expr_ref postfix(expr_ref);
  expr_ref subscript(expr_ref);
  expr_ref filters(expr_ref);
  expr_ref named_filter(expr_ref, std::uint32_t at);
  expr_ref test(expr_ref);
  void arguments(expr& call);

  guard& g_;
  std::vector<token> tokens_;
  std::size_t next_ = 0;
  int depth_ = 0;
};

}  // namespace troupe::gpu::jinja
