#include "gpu/model/jinja/expr_parser.hpp"

#include <algorithm>

namespace troupe::gpu::jinja {
namespace {

/// Counts how deep the parser is inside itself.
class nested {
 public:
  nested(guard& g, int& depth) : depth_(depth) {
    g.check_depth(depth + 1);
    ++depth_;
  }
  ~nested() { --depth_; }
  nested(const nested&) = delete;
  nested& operator=(const nested&) = delete;

 private:
  int& depth_;
};

// Tightest last; a level's operators group to the left.
constexpr int level_or = 0, level_and = 1, level_not = 2, level_add = 3, level_concat = 4,
              level_multiply = 5, level_power = 6;

bool at_level(const token& t, int level) {
  const auto one_of = [&](std::initializer_list<std::string_view> symbols) {
    return std::find(symbols.begin(), symbols.end(), t.body) != symbols.end();
  };
  if (level == level_or) return t.kind == token_kind::name && t.body == "or";
  if (level == level_and) return t.kind == token_kind::name && t.body == "and";
  if (t.kind != token_kind::symbol) return false;
  if (level == level_add) return one_of({"+", "-"});
  if (level == level_multiply) return one_of({"*", "/", "//", "%"});
  return level == level_power && t.body == "**";
}

}  // namespace

bool is_reserved(std::string_view name) {
  for (const std::string_view word : {"and", "or", "not", "in", "is", "if", "else"}) {
    if (name == word) return true;
  }
  return false;
}

const token& expr_parser::peek(std::size_t ahead) const {
  // The last token is `end`, so there is always one more to look at.
  return tokens_[std::min(next_ + ahead, tokens_.size() - 1)];
}

token expr_parser::take() {
  const auto out = peek();
  // What fails from here on fails at this token.
  g_.at = out.at;
  if (next_ + 1 < tokens_.size()) ++next_;
  return out;
}

bool expr_parser::at_name(std::string_view word) const {
  return peek().kind == token_kind::name && peek().body == word;
}
bool expr_parser::at_symbol(std::string_view symbol) const {
  return peek().kind == token_kind::symbol && peek().body == symbol;
}
bool expr_parser::take_name(std::string_view word) {
  return at_name(word) && (take(), true);
}
bool expr_parser::take_symbol(std::string_view symbol) {
  return at_symbol(symbol) && (take(), true);
}

void expr_parser::expect_symbol(std::string_view symbol) {
  if (!take_symbol(symbol)) fail_unexpected(("\"" + std::string(symbol) + "\"").c_str());
}

std::string expr_parser::expect_identifier(const char* what) {
  if (peek().kind != token_kind::name) fail_unexpected(what);
  return std::string(take().body);
}

void expr_parser::fail_at(const token& t, const std::string& what) {
  g_.at = t.at;
  g_.fail(what);
}

void expr_parser::fail_unexpected(const char* expected) {
  const auto& t = peek();
  // Cut: a token may be a string of any length.
  const auto found = t.kind == token_kind::end ? std::string("the end")
                                               : "\"" + std::string(t.body.substr(0, 40)) + "\"";
  fail_at(t, std::string("expected ") + expected + ", found " + found);
}

expr_ref expr_parser::make(expr_kind kind, std::uint32_t at) {
  auto out = std::make_unique<expr>();
  out->kind = kind;
  out->at = at;
  return out;
}

void expr_parser::adopt(expr& parent, expr_ref child) {
  // The depth is kept in the tree, since chains of operators make it deep without deep parsing, and
  // evaluating and destroying it recurse.
  if (child != nullptr) {
    parent.depth = std::max(parent.depth, child->depth + 1);
    g_.check_depth(parent.depth);
  }
  parent.items.push_back(std::move(child));
}

expr_ref expr_parser::binary(const token& op, expr_ref left, expr_ref right) {
  auto out = make(expr_kind::binary, op.at);
  out->name = op.body;
  adopt(*out, std::move(left));
  adopt(*out, std::move(right));
  return out;
}

// or {"if" or ["else" expression]}
expr_ref expr_parser::expression() {
  const nested here(g_, depth_);
  auto out = binary_level(level_or);
  while (at_name("if")) {
    auto choice = make(expr_kind::conditional, take().at);
    adopt(*choice, std::move(out));
    adopt(*choice, binary_level(level_or));
    // Without else the value is undefined, which prints as nothing.
    adopt(*choice, take_name("else") ? expression() : nullptr);
    out = std::move(choice);
  }
  return out;
}

// `for x in y if z`: an `if` behind this one is the loop's.
expr_ref expr_parser::plain_expression() {
  const nested here(g_, depth_);
  return binary_level(level_or);
}

// expression {"," expression} [","]
expr_ref expr_parser::expression_or_tuple() {
  const auto at = peek().at;
  auto first = expression();
  if (!at_symbol(",")) return first;
  auto out = make(expr_kind::tuple, at);
  adopt(*out, std::move(first));
  while (take_symbol(",")) {
    // A comma may end the tuple, as in Python.
    const auto kind = peek().kind;
    if (kind == token_kind::print_end || kind == token_kind::tag_end) break;
    adopt(*out, expression());
  }
  return out;
}

// A row of operands of the next level between this level's operators; `not` and `~` have rules of
// their own.
expr_ref expr_parser::binary_level(int level) {
  if (level == level_not) return inverted();
  if (level == level_concat) return concatenation();
  // `**` binds to the left here, unlike in Python, and filters bind tighter than any operator: both
  // are Jinja's own grammar.
  const auto operand = [&] { return level == level_power ? unary(true) : binary_level(level + 1); };
  auto out = operand();
  while (at_level(peek(), level)) {
    const auto op = take();
    out = binary(op, std::move(out), operand());
  }
  return out;
}

// "not" not | comparison: it binds looser than comparisons, so `not a in b` is `not (a in b)`.
expr_ref expr_parser::inverted() {
  if (!at_name("not")) return comparison();
  const nested here(g_, depth_);
  auto out = make(expr_kind::unary, take().at);
  out->name = "not";
  adopt(*out, inverted());
  return out;
}

// sum {("==" | "<" | ... | "in" | "not" "in") sum}. A chain is one node: each operand is computed
// once.
expr_ref expr_parser::comparison() {
  auto first = binary_level(level_add);
  expr_ref out;
  for (;;) {
    std::string op;
    const auto at = peek().at;
    // The lexer gives whole operators, so the order does not matter.
    for (const std::string_view symbol : {"==", "!=", "<", "<=", ">", ">="}) {
      if (at_symbol(symbol)) op = symbol;
    }
    if (!op.empty()) {
      take();
    } else if (take_name("in")) {
      op = "in";
    } else if (at_name("not") && peek(1).kind == token_kind::name && peek(1).body == "in") {
      take();
      take();
      op = "not in";
    } else {
      return out != nullptr ? std::move(out) : std::move(first);
    }
    if (out == nullptr) {
      out = make(expr_kind::compare, at);
      adopt(*out, std::move(first));
    }
    out->operators.push_back(std::move(op));
    adopt(*out, binary_level(level_add));
  }
}

// All operands of a row of `~` are one node: joined once, not pair by pair.
expr_ref expr_parser::concatenation() {
  auto first = binary_level(level_multiply);
  if (!at_symbol("~")) return first;
  auto out = make(expr_kind::concat, peek().at);
  adopt(*out, std::move(first));
  while (take_symbol("~")) adopt(*out, binary_level(level_multiply));
  return out;
}

// ("-" | "+") unary | primary postfix filters
expr_ref expr_parser::unary(bool with_filters) {
  const nested here(g_, depth_);
  expr_ref out;
  if (at_symbol("-") || at_symbol("+")) {
    const auto op = take();
    out = make(expr_kind::unary, op.at);
    out->name = op.body;
    // Filters belong to the whole of `-x | abs`, so they are left for the caller.
    adopt(*out, unary(false));
  } else {
    out = primary();
  }
  out = postfix(std::move(out));
  return with_filters ? filters(std::move(out)) : std::move(out);
}

// {"." name | "." integer | "[" subscript "]" | "(" arguments ")"}
expr_ref expr_parser::postfix(expr_ref subject) {
  for (;;) {
    if (at_symbol(".")) {
      take();
      // `x.0` is an item, as in Jinja.
      const bool number = peek().kind == token_kind::integer;
      auto out = make(number ? expr_kind::item : expr_kind::attribute, peek().at);
      adopt(*out, std::move(subject));
      if (number)
        adopt(*out, number_literal());
      else
        out->name = expect_identifier("an attribute's name");
      subject = std::move(out);
    } else if (at_symbol("[")) {
      subject = subscript(std::move(subject));
    } else if (at_symbol("(")) {
      auto out = make(expr_kind::call, peek().at);
      adopt(*out, std::move(subject));
      arguments(*out);
      subject = std::move(out);
    } else {
      return subject;
    }
  }
}

// expression | [start] ":" [stop] [":" [step]]; parts that are left out are null.
expr_ref expr_parser::subscript(expr_ref subject) {
  auto out = make(expr_kind::item, take().at);
  adopt(*out, std::move(subject));
  if (!at_symbol(":")) adopt(*out, expression());
  if (at_symbol(":")) {
    out->kind = expr_kind::slice;
    // [:b] has no start.
    if (out->items.size() == 1) adopt(*out, nullptr);
    while (take_symbol(":")) {
      if (out->items.size() == 4) fail_unexpected("\"]\"");
      adopt(*out, at_symbol(":") || at_symbol("]") ? nullptr : expression());
    }
    while (out->items.size() < 4) adopt(*out, nullptr);
  }
  expect_symbol("]");
  return out;
}

// Python's rules: positional ones, then named ones; * and ** spread a list and a dict.
void expr_parser::arguments(expr& call) {
  expect_symbol("(");
  bool first = true;
  while (!at_symbol(")")) {
    if (!std::exchange(first, false)) {
      expect_symbol(",");
      if (at_symbol(")")) break;
    }
    const bool named = peek().kind == token_kind::name && peek(1).kind == token_kind::symbol &&
                       peek(1).body == "=";
    if (named || at_symbol("**")) {
      auto name = std::string(take().body);
      if (named) take();
      auto given = expression();
      // adopt() does this for children in `items`.
      call.depth = std::max(call.depth, given->depth + 1);
      g_.check_depth(call.depth);
      call.named.emplace_back(std::move(name), std::move(given));
    } else if (at_symbol("*")) {
      auto all = make(expr_kind::unary, peek().at);
      all->name = take().body;
      adopt(*all, expression());
      adopt(call, std::move(all));
    } else {
      // Python refuses a positional argument behind a named one too.
      if (!call.named.empty()) fail_unexpected("a named argument");
      adopt(call, expression());
    }
  }
  take();
}

expr_ref expr_parser::named_filter(expr_ref subject, std::uint32_t at) {
  auto out = make(expr_kind::filter, at);
  out->name = expect_identifier("a filter's name");
  adopt(*out, std::move(subject));
  if (at_symbol("(")) arguments(*out);
  return out;
}

expr_ref expr_parser::filters_of_captured() {
  auto out = make(expr_kind::captured, peek().at);
  take_symbol("|");
  do {
    out = named_filter(std::move(out), peek().at);
  } while (take_symbol("|"));
  return out;
}

// {"|" filter | "is" test | "(" arguments ")"}, in any order.
expr_ref expr_parser::filters(expr_ref subject) {
  for (;;) {
    if (at_symbol("|")) {
      const auto at = take().at;
      subject = named_filter(std::move(subject), at);
    } else if (at_name("is")) {
      subject = test(std::move(subject));
    } else if (at_symbol("(")) {
      subject = postfix(std::move(subject));
    } else {
      return subject;
    }
  }
}

expr_ref expr_parser::test(expr_ref subject) {
  auto out = make(expr_kind::test, take().at);
  // `is not defined` is the negated test, not `not` of something.
  out->negated = take_name("not");
  out->name = expect_identifier("a test's name");
  adopt(*out, std::move(subject));
  const auto& t = peek();
  // `x is divisibleby 3`: one argument may stand without brackets.
  const bool literal = t.kind == token_kind::string || t.kind == token_kind::integer ||
                       t.kind == token_kind::floating || at_symbol("[") || at_symbol("{") ||
                       (t.kind == token_kind::name && !is_reserved(t.body));
  if (at_symbol("("))
    arguments(*out);
  else if (literal)
    adopt(*out, postfix(primary()));
  return out;
}

// ["("] name or name.attribute {"," ...} [")"]; brackets inside brackets are not supported.
expr_ref expr_parser::target() {
  // Names and attributes of a namespace; anything else cannot be assigned to.
  const auto one = [&] {
    if (peek().kind == token_kind::name && is_reserved(peek().body)) fail_unexpected("a name");
    auto out = make(expr_kind::name, peek().at);
    out->name = expect_identifier("a name");
    if (!take_symbol(".")) return out;
    auto member = make(expr_kind::attribute, out->at);
    member->name = expect_identifier("an attribute's name");
    adopt(*member, std::move(out));
    return member;
  };
  const bool bracket = take_symbol("(");
  auto first = one();
  if (at_symbol(",")) {
    auto all = make(expr_kind::tuple, first->at);
    adopt(*all, std::move(first));
    while (take_symbol(",")) adopt(*all, one());
    first = std::move(all);
  }
  if (bracket) expect_symbol(")");
  return first;
}

}  // namespace troupe::gpu::jinja
