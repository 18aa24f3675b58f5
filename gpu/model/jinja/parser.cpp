#include "gpu/model/jinja/parser.hpp"

#include "gpu/model/jinja/expr_parser.hpp"

namespace troupe::gpu::jinja {
namespace {

class statement_parser {
 public:
  statement_parser(guard& g, std::vector<token> tokens) : in_(g, std::move(tokens)) {}

  body run() {
    auto out = until({});
    if (in_.peek().kind != token_kind::end) in_.fail_unexpected("the end");
    return out;
  }

 private:
  using words = std::initializer_list<std::string_view>;

  /// Statements up to a tag that begins with one of `ends`; that tag's {% and word are still to be
  /// taken.
  body until(words ends) {
    in_.limits().check_depth(++depth_);
    body out;
    for (;;) {
      const auto& t = in_.peek();
      if (t.kind == token_kind::end) break;
      if (t.kind == token_kind::tag_begin && in_.peek(1).kind == token_kind::name) {
        bool ended = false;
        for (const auto word : ends) ended = ended || in_.peek(1).body == word;
        if (ended) break;
      }
      out.push_back(statement());
    }
    --depth_;
    return out;
  }

  std::unique_ptr<node> make(node_kind kind, const token& t) {
    auto out = std::make_unique<node>();
    out->kind = kind;
    out->at = t.at;
    return out;
  }

  /// Text, {{ an expression }} or a {% tag %} with all that belongs to it.
  std::unique_ptr<node> statement() {
    const auto t = in_.take();
    if (t.kind == token_kind::data) {
      auto out = make(node_kind::data, t);
      out->text = trusted_text(in_.limits(), t.body);
      return out;
    }
    if (t.kind == token_kind::print_begin) {
      auto out = make(node_kind::print, t);
      out->subject = in_.expression_or_tuple();
      if (in_.peek().kind != token_kind::print_end) in_.fail_unexpected("\"}}\"");
      in_.take();
      return out;
    }
    if (in_.peek().kind != token_kind::name) in_.fail_unexpected("a tag's name");
    const auto word = in_.take();
    if (word.body == "if") return conditional(word);
    if (word.body == "for") return loop(word);
    if (word.body == "set") return assignment(word);
    if (word.body == "macro") return macro(word);
    if (word.body == "call") return call_block(word);
    if (word.body == "filter") return filter_block(word);
    if (word.body == "with") return with_block(word);
    // transformers' tag around what the assistant wrote, for masks in training; here it is its
    // body.
    if (word.body == "generation") {
      auto out = make(node_kind::block, word);
      close();
      out->inner = body_without_loops("endgeneration", word);
      return out;
    }
    // Jinja's extension loopcontrols, which transformers has on.
    if (word.body == "break" || word.body == "continue") {
      if (loops_ == 0) in_.fail_at(word, std::string(word.body) + " outside of a loop");
      close();
      return make(word.body == "break" ? node_kind::stop_loop : node_kind::next_loop, word);
    }
    in_.fail_at(word, "unknown tag \"" + std::string(word.body.substr(0, 40)) + "\"");
  }

  void close() {
    if (in_.peek().kind != token_kind::tag_end) in_.fail_unexpected("\"%}\"");
    in_.take();
  }

  /// Takes {% word; fails with the opening tag's place when the template ended first.
  void open_end_tag(const token& opened) {
    // At the tag that was opened: the end of the file says nothing about where the mistake is.
    if (in_.peek().kind == token_kind::end) {
      in_.fail_at(opened, "\"" + std::string(opened.body) + "\" is never closed");
    }
    in_.take();
  }
  void end_tag(std::string_view word, const token& opened) {
    open_end_tag(opened);
    if (!in_.take_name(word)) in_.fail_unexpected(("\"" + std::string(word) + "\"").c_str());
    close();
  }

  /// {% if a %} .. {% elif b %} .. {% else %} .. {% endif %}
  std::unique_ptr<node> conditional(const token& opened) {
    auto out = make(node_kind::branch, opened);
    for (;;) {
      auto condition = in_.plain_expression();
      close();
      out->branches.emplace_back(std::move(condition), until({"elif", "else", "endif"}));
      open_end_tag(opened);
      if (!in_.take_name("elif")) break;
    }
    if (in_.take_name("else")) {
      close();
      out->inner = until({"endif"});
      open_end_tag(opened);
    }
    if (!in_.take_name("endif")) in_.fail_unexpected("\"endif\"");
    close();
    return out;
  }

  /// {% for x in y if z recursive %} .. {% else %} .. {% endfor %}
  std::unique_ptr<node> loop(const token& opened) {
    auto out = make(node_kind::loop, opened);
    out->target = in_.target();
    if (!in_.take_name("in")) in_.fail_unexpected("\"in\"");
    out->subject = in_.plain_expression();
    if (in_.take_name("if")) out->condition = in_.expression();
    out->recursive = in_.take_name("recursive");
    close();
    // The else block is outside: a break there belongs to a loop around.
    ++loops_;
    out->inner = until({"else", "endfor"});
    --loops_;
    open_end_tag(opened);
    if (in_.take_name("else")) {
      close();
      out->otherwise = until({"endfor"});
      open_end_tag(opened);
    }
    if (!in_.take_name("endfor")) in_.fail_unexpected("\"endfor\"");
    close();
    return out;
  }

  /// {% set x = y %}, or {% set x | filter %} .. {% endset %}
  std::unique_ptr<node> assignment(const token& opened) {
    auto out = make(node_kind::assign, opened);
    out->target = in_.target();
    if (in_.take_symbol("=")) {
      out->subject = in_.expression_or_tuple();
      close();
      return out;
    }
    out->kind = node_kind::capture;
    if (in_.at_symbol("|")) out->subject = in_.filters_of_captured();
    close();
    out->inner = until({"endset"});
    end_tag("endset", opened);
    return out;
  }

  /// (a, b=1) of a macro or a call block.
  void parameters(node& out) {
    in_.expect_symbol("(");
    while (!in_.at_symbol(")")) {
      if (!out.parameters.empty()) in_.expect_symbol(",");
      auto name = in_.expect_identifier("a parameter's name");
      auto otherwise = in_.take_symbol("=") ? in_.expression() : nullptr;
      // As Python: a parameter without a default may not follow one that has it.
      if (otherwise == nullptr && !out.parameters.empty() &&
          out.parameters.back().second != nullptr)
        in_.fail_unexpected("a default, as the parameter before has one");
      out.parameters.emplace_back(std::move(name), std::move(otherwise));
    }
    in_.take();
  }

  /// The body of what becomes a function of its own: a loop around cannot be left from inside.
  body body_without_loops(std::string_view end, const token& opened) {
    const int outer = std::exchange(loops_, 0);
    auto out = until({end});
    loops_ = outer;
    end_tag(end, opened);
    return out;
  }

  /// The same for a macro or call block, noting which of the implied names it uses.
  void function_body(node& out, std::string_view end, const token& opened) {
    // Of this body alone; the ones around get them, too, since a nested macro may read what an
    // outer one takes.
    auto around = std::exchange(in_.implied_names, {});
    out.inner = body_without_loops(end, opened);
    out.takes_caller = in_.implied_names.count("caller") != 0;
    out.takes_varargs = in_.implied_names.count("varargs") != 0;
    out.takes_kwargs = in_.implied_names.count("kwargs") != 0;
    in_.implied_names.merge(around);
  }

  /// {% macro name(a, b=1) %} .. {% endmacro %}
  std::unique_ptr<node> macro(const token& opened) {
    auto out = make(node_kind::macro, opened);
    out->name = in_.expect_identifier("a macro's name");
    parameters(*out);
    close();
    function_body(*out, "endmacro", opened);
    return out;
  }

  /// {% call(a) f(..) %} .. {% endcall %}: the body is what f calls as caller(..).
  std::unique_ptr<node> call_block(const token& opened) {
    auto out = make(node_kind::call, opened);
    out->name = "caller";
    if (in_.at_symbol("(")) parameters(*out);
    const auto called = in_.peek();
    out->subject = in_.expression();
    // A call block hands its body to what it calls, so there must be a call.
    if (out->subject->kind != expr_kind::call) in_.fail_at(called, "call: expected a call");
    close();
    function_body(*out, "endcall", opened);
    return out;
  }

  /// {% filter upper | trim %} .. {% endfilter %}
  std::unique_ptr<node> filter_block(const token& opened) {
    auto out = make(node_kind::filtered, opened);
    out->subject = in_.filters_of_captured();
    close();
    out->inner = until({"endfilter"});
    end_tag("endfilter", opened);
    return out;
  }

  /// {% with a = 1, b = 2 %} .. {% endwith %}
  std::unique_ptr<node> with_block(const token& opened) {
    auto out = make(node_kind::with, opened);
    while (in_.peek().kind != token_kind::tag_end) {
      if (!out->parameters.empty()) in_.expect_symbol(",");
      auto name = in_.expect_identifier("a name");
      in_.expect_symbol("=");
      out->parameters.emplace_back(std::move(name), in_.expression());
    }
    close();
    out->inner = until({"endwith"});
    end_tag("endwith", opened);
    return out;
  }

  expr_parser in_;
  int depth_ = 0;
  int loops_ = 0;
};

}  // namespace

body parse(guard& g, std::string_view source) {
  return statement_parser(g, tokenize(g, source)).run();
}

}  // namespace troupe::gpu::jinja
