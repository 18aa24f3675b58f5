#include "gpu/model/jinja/lexer.hpp"

namespace troupe::gpu::jinja {
namespace {

constexpr std::string_view blanks = " \t\n\r\v\f";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
/// Any byte of a character beyond ASCII, since Python's identifiers may have such; which ones
/// exactly does not matter here.
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

class lexer {
 public:
  lexer(guard& g, std::string_view source) : g_(g), source_(source) {}

  std::vector<token> run() {
    while (at_ < source_.size()) {
      const auto open = find_open();
      data_before(open);
      if (open == source_.size()) break;
      at_ = open;
      // find_open() has seen that it is there.
      const char kind = source_[open + 1];
      if (kind == '#')
        comment();
      else if (kind == '%' && raw_block())
        continue;
      else
        tag(kind == '{' ? token_kind::print_begin : token_kind::tag_begin);
    }
    push(token_kind::end, source_.size(), {});
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::size_t at, const std::string& what) {
    g_.at = static_cast<std::uint32_t>(at);
    g_.fail(what);
  }
  void push(token_kind kind, std::size_t at, std::string_view body) {
    out_.push_back({kind, static_cast<std::uint32_t>(at), body});
  }
  bool starts(std::size_t at, std::string_view with) const {
    return source_.substr(at).starts_with(with);
  }
  std::size_t skip_blanks(std::size_t at) const {
    const auto found = source_.find_first_not_of(blanks, at);
    return found == source_.npos ? source_.size() : found;
  }
  std::size_t find_open() const {
    for (auto at = source_.find('{', at_); at != source_.npos; at = source_.find('{', at + 1)) {
      if (at + 1 < source_.size() &&
          (source_[at + 1] == '{' || source_[at + 1] == '%' || source_[at + 1] == '#'))
        return at;
    }
    return source_.size();
  }

  /// The data from at_ to the tag at `open`, trimmed as the tag asks.
  void data_before(std::size_t open) {
    auto data = source_.substr(at_, open - at_);
    if (open < source_.size()) data = trimmed(data, open);
    if (!data.empty()) push(token_kind::data, at_, data);
  }
  /// trim_blocks and lstrip_blocks are on, as in transformers: a block tag alone on its line leaves
  /// nothing of the line. `{{` is never trimmed unless it says `-`.
  std::string_view trimmed(std::string_view data, std::size_t open) const {
    const char control = open + 2 < source_.size() ? source_[open + 2] : ' ';
    // "-": all white space before the tag, line breaks too.
    if (control == '-') return data.substr(0, data.find_last_not_of(blanks) + 1);
    if (control == '+' || source_[open + 1] == '{') return data;
    // lstrip_blocks: only blanks since the line began.
    const auto newline = data.rfind('\n');
    const auto line = newline == data.npos ? 0 : newline + 1;
    if (newline == data.npos && !line_starting_) return data;
    return data.find_first_not_of(blanks, line) == data.npos ? data.substr(0, line) : data;
  }

  /// Moves past the end of a tag: white space after '-', one newline after a block or comment.
  void after_close(std::size_t at, char control, bool trim_newline) {
    line_starting_ = false;
    at_ = at;
    if (control == '-') {
      at_ = skip_blanks(at);
      line_starting_ = at_ > at && source_[at_ - 1] == '\n';
    } else if (control != '+' && trim_newline && at < source_.size() && source_[at] == '\n') {
      at_ = at + 1;
      line_starting_ = true;
    }
  }

  void comment() {
    const auto close = source_.find("#}", at_ + 2);
    if (close == source_.npos) fail(at_, "a comment without its end");
    const char before = close > at_ + 2 ? source_[close - 1] : ' ';
    after_close(close + 2, before, true);
  }

  /// {% raw %} ... {% endraw %}: everything between is data.
  bool raw_block() {
    auto at = at_ + 2;
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
    at = skip_blanks(at);
    // An ordinary tag: its name is read as such.
    if (!starts(at, "raw")) return false;
    at = skip_blanks(at + 3);
    const bool trim = starts(at, "-%}");
    if (!trim && !starts(at, "%}")) return false;
    const auto begin = trim ? skip_blanks(at + 3) : at + 2;
    // The first endraw ends it; nothing inside is looked at.
    for (auto open = source_.find("{%", begin); open != source_.npos;
         open = source_.find("{%", open + 1)) {
      auto end = open + 2;
      if (end < source_.size() && (source_[end] == '-' || source_[end] == '+')) ++end;
      end = skip_blanks(end);
      if (!starts(end, "endraw")) continue;
      end = skip_blanks(end + 6);
      const char control = end < source_.size() ? source_[end] : ' ';
      if (control == '-' || control == '+') ++end;
      if (!starts(end, "%}")) continue;
      at_ = begin;
      line_starting_ = false;
      data_before(open);
      after_close(end + 2, control, true);
      return true;
    }
    fail(at_, "raw without endraw");
  }

  void tag(token_kind begin) {
    const bool print = begin == token_kind::print_begin;
    const std::string_view close = print ? "}}" : "%}";
    const auto opened = at_;
    push(begin, at_, source_.substr(at_, 2));
    at_ += 2;
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
    open_.clear();
    for (;;) {
      at_ = skip_blanks(at_);
      if (at_ == source_.size())
        fail(opened, print ? "\"{{\" without \"}}\"" : "\"{%\" without \"%}\"");
      const char control = source_[at_];
      const std::size_t skip = control == '-' || (control == '+' && !print) ? 1 : 0;
      // Only outside of brackets: `{{ {'a': {}} }}` has a `}}` inside.
      if (open_.empty() && starts(at_ + skip, close)) {
        push(print ? token_kind::print_end : token_kind::tag_end, at_, close);
        after_close(at_ + skip + 2, control, !print);
        return;
      }
      one_token();
    }
  }

  /// Words, numbers, strings and symbols of Python, with `|` and `~` added.
  void one_token() {
    const auto begin = at_;
    const char c = source_[at_];
    if (is_name_start(c)) {
      while (at_ < source_.size() && (is_name_start(source_[at_]) || is_digit(source_[at_]))) ++at_;
      return push(token_kind::name, begin, source_.substr(begin, at_ - begin));
    }
    if (is_digit(c)) return number();
    if (c == '\'' || c == '"') {
      for (++at_; at_ < source_.size() && source_[at_] != c; ++at_) {
        // An escaped quote ends no string.
        if (source_[at_] == '\\') ++at_;
      }
      if (at_ >= source_.size()) fail(begin, "a string without its end");
      ++at_;
      return push(token_kind::string, begin, source_.substr(begin, at_ - begin));
    }
    // The longer symbols first, or `**` would be two products.
    for (const std::string_view symbol : {"**", "//", "==", "!=", "<=", ">="}) {
      if (starts(at_, symbol)) {
        at_ += 2;
        return push(token_kind::symbol, begin, symbol);
      }
    }
    if (std::string_view("+-*/%~<>=()[]{}.,:|").find(c) == std::string_view::npos) {
      fail(begin, "an unexpected character");
    }
    bracket(c);
    ++at_;
    push(token_kind::symbol, begin, source_.substr(begin, 1));
  }

  /// Checked here already, because a closing `}}` counts only outside of brackets.
  void bracket(char c) {
    constexpr std::string_view opening = "([{", closing = ")]}";
    if (opening.find(c) != opening.npos) open_ += closing[opening.find(c)];
    if (closing.find(c) == closing.npos) return;
    if (open_.empty() || open_.back() != c) fail(at_, std::string("an unexpected \"") + c + "\"");
    open_.pop_back();
  }

  void number() {
    const auto begin = at_;
    const auto digits = [&] {
      while (at_ < source_.size() && (is_digit(source_[at_]) || source_[at_] == '_')) ++at_;
    };
    digits();
    bool floating = false;
    // `1.` is no float here: `x.1.y` reads an item.
    if (at_ + 1 < source_.size() && source_[at_] == '.' && is_digit(source_[at_ + 1])) {
      floating = true;
      ++at_;
      digits();
    }
    if (at_ < source_.size() && (source_[at_] == 'e' || source_[at_] == 'E')) {
      auto exponent = at_ + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-'))
        ++exponent;
      // Without a digit the letter begins a name, as in Python's tokenizer.
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        floating = true;
        at_ = exponent;
        digits();
      }
    }
    push(floating ? token_kind::floating : token_kind::integer, begin,
         source_.substr(begin, at_ - begin));
  }

  guard& g_;
  std::string_view source_;
  std::size_t at_ = 0;
  bool line_starting_ =
      true;           ///< only white space since a line's start, also when the newline was trimmed
  std::string open_;  ///< the brackets that are to be closed, innermost last
  std::vector<token> out_;
};

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Reads `count` hex digits at `at`; -1 when they are not there.
std::int64_t hex_number(std::string_view from, std::size_t at, std::size_t count) {
  std::int64_t out = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const int digit = at + i < from.size() ? hex_digit(from[at + i]) : -1;
    if (digit < 0) return -1;
    out = out * 16 + digit;
  }
  return out;
}

}  // namespace

// Jinja turns \r\n and \r into \n before anything else (newline_sequence).
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r')
      out += source[i];
    else if (i + 1 == source.size() || source[i + 1] != '\n')
      out += '\n';
  }
  // keep_trailing_newline is off in Jinja: one newline at the very end is not the template's.
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::vector<token> tokenize(guard& g, std::string_view source) {
  return lexer(g, source).run();
}

std::string unescaped(std::string_view body) {
  // Without the quotes.
  body = body.substr(1, body.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\' || i + 1 == body.size()) {
      out += body[i];
      continue;
    }
    const char c = body[++i];
    constexpr std::string_view letters = "abfnrtv\\'\"", meant = "\a\b\f\n\r\t\v\\'\"";
    if (const auto known = letters.find(c); known != letters.npos) {
      out += meant[known];
      continue;
    }
    // Surrogates are no characters and the text must stay UTF-8, so they stay escapes; so does what
    // is no escape, as in Python.
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    const auto code = digits == 0 ? -1 : hex_number(body, i + 1, digits);
    if (code >= 0 && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF)) {
      append_utf8(out, static_cast<char32_t>(code));
      i += digits;
    } else if (c == '0') {
      out += '\0';
    } else if (c != '\n') {  // a backslash before a line end joins the lines
      out += '\\';
      out += c;
    }
  }
  return out;
}

}  // namespace troupe::gpu::jinja
