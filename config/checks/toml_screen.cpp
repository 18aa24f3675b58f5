#include "config/checks/toml_screen.hpp"

#include <algorithm>
#include <cstdio>

namespace troupe {
namespace {

/// Walks over the text and knows at each byte whether it is in a string, a comment or a list.
class walk {
 public:
  explicit walk(const std::string& text) : text_(text) {}

  bool at_end() const { return at_ >= text_.size(); }
  std::size_t at() const { return at_; }
  std::uint32_t line() const { return line_; }
  char byte() const { return text_[at_]; }
  bool in_text() const { return !quote_.empty() || comment_; }
  /// Outside strings, comments and lists, and nothing but blanks before it on its line.
  bool starts_line() const { return !in_text() && depth_ == 0 && blank_; }

  /// Past a part that is to leave no trace: `end` is the next line break, or the end.
  void skip_to(std::size_t end) { at_ = end; }

  void step() {
    const char ch = byte();
    if (ch == '\n') {
      ++line_;
      comment_ = false;
      blank_ = true;
      if (quote_.size() == 1) quote_.clear();  // unfinished: the parser says so
      ++at_;
      return;
    }
    if (ch != ' ' && ch != '\t' && ch != '\r') blank_ = false;
    if (!quote_.empty())
      in_string(ch);
    else if (!comment_)
      outside(ch);
    ++at_;
  }

 private:
  void in_string(char ch) {
    if (ch == '\\' && quote_[0] == '"' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n')
      ++at_;  // whatever is escaped ends no string
    else if (text_.compare(at_, quote_.size(), quote_) == 0) {
      at_ += quote_.size() - 1;
      quote_.clear();
    }
  }

  void outside(char ch) {
    if (ch == '#') comment_ = true;
    if (ch == '[') ++depth_;
    if (ch == ']' && depth_ > 0) --depth_;
    if (ch != '"' && ch != '\'') return;
    quote_ =
        text_.compare(at_, 3, std::string(3, ch)) == 0 ? std::string(3, ch) : std::string(1, ch);
    at_ += quote_.size() - 1;
  }

  const std::string& text_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  std::string quote_;  ///< what ends the string; empty: not in one
  bool comment_ = false, blank_ = true;
  int depth_ = 0;
};

}  // namespace

screened_toml screen_toml(const std::string& text) {
  constexpr std::size_t shown = 40;
  screened_toml out{text, {}, true};
  const std::size_t start = text.rfind("\xEF\xBB\xBF", 0) == 0 ? 3 : 0;  // a byte order mark
  out.text.erase(0, start);
  const std::string source = out.text;
  walk w(source);
  for (; !w.at_end(); w.step()) {
    // Strings and comments may hold anything; TOML's own parser judges them.
    if (w.in_text()) continue;
    const auto byte = static_cast<unsigned char>(w.byte());
    if (w.starts_line() && byte == '[') {
      const auto end = std::min(source.find('\n', w.at()), source.size());
      auto header =
          source.substr(w.at(), std::min(end, source.find_first_of("#\r\n", w.at())) - w.at());
      header.erase(header.find_last_not_of(" \t") + 1);
      out.problems.push_back(
          {w.line(), header.substr(0, shown) + ": a table; the keys are flat, without sections"});
      // Blanked and not removed, so that lines and columns of later mistakes stay right.
      std::fill(out.text.begin() + static_cast<std::ptrdiff_t>(w.at()),
                out.text.begin() + static_cast<std::ptrdiff_t>(end), ' ');
      w.skip_to(end);
      if (w.at_end()) break;
      continue;
    }
    if (byte != '{' && byte != '}' &&
        (byte == '\t' || byte == '\n' || byte == '\r' || (byte >= 0x20 && byte < 0x7f)))
      continue;
    // By number: the byte itself may not be printable.
    char name[16];
    std::snprintf(name, sizeof name, "byte 0x%02X", byte);
    out.problems.push_back({w.line(), byte == '{' || byte == '}'
                                          ? "an inline table; the keys are flat"
                                          : std::string(name) + " outside a string"});
    out.parse = false;
    break;
  }
  return out;
}

}  // namespace troupe
