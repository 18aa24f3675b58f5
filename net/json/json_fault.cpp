// Finds the byte at which a text stops being JSON. Runs only on texts that simdjson has refused, to
// name the place.
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <system_error>

#include "net/json/json_reader.hpp"

namespace troupe::net {
namespace {

class fault_finder {
 public:
  explicit fault_finder(std::string_view text) : text_{text} {}

  std::optional<json_fault> run() {
    space();
    if (value(0)) {
      space();
      if (at_ < text_.size()) fail("unexpected bytes after the value");
    }
    return std::move(fault_);
  }

 private:
  bool fail(std::string what) {
    if (!fault_) fault_ = json_fault{at_, std::move(what)};
    return false;
  }
  bool done() const { return at_ >= text_.size(); }
  char peek() const { return text_[at_]; }
  void space() {
    while (!done() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) ++at_;
  }
  bool take(char c) {
    if (done() || peek() != c) return false;
    ++at_;
    return true;
  }

  bool value(std::size_t depth) {
    if (depth > json_depth_max) return fail("nested too deep");
    if (done()) return fail("the text ends early");
    switch (peek()) {
      case '{':
        return members(depth);
      case '[':
        return items(depth);
      case '"':
        return string();
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        return number();
    }
  }

  bool members(std::size_t depth) {
    ++at_;
    space();
    if (take('}')) return true;
    for (;;) {
      space();
      if (done()) return fail("the text ends inside an object");
      if (peek() != '"') return fail("expected a key");
      if (!string()) return false;
      space();
      if (!take(':')) return fail("expected ':'");
      space();
      if (!value(depth + 1)) return false;
      space();
      if (take('}')) return true;
      if (!take(',')) return fail("expected ',' or '}'");
    }
  }

  bool items(std::size_t depth) {
    ++at_;
    space();
    if (take(']')) return true;
    for (;;) {
      space();
      if (!value(depth + 1)) return false;
      space();
      if (take(']')) return true;
      if (!take(',')) return fail("expected ',' or ']'");
    }
  }

  bool word(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) return fail("unknown word");
    at_ += expected.size();
    return true;
  }

  bool digits() {
    const std::size_t from = at_;
    while (!done() && peek() >= '0' && peek() <= '9') ++at_;
    return at_ > from;
  }

  bool number() {
    const std::size_t start = at_;
    take('-');
    const std::size_t first = at_;
    if (!digits()) return fail("expected a value");
    if (text_[first] == '0' && at_ - first > 1) return fail("a number starts with 0");
    const std::size_t whole = at_;
    if (take('.') && !digits()) return fail("expected a digit");
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (!digits()) return fail("expected a digit");
    }
    if (fits(text_.substr(start, at_ - start), at_ == whole)) return true;
    at_ = start;
    return fail("a number is too large");
  }

  /// Into 64 bits: a whole number as signed or unsigned, another as a finite one.
  static bool fits(std::string_view number, bool whole) {
    if (!whole) return std::isfinite(std::strtod(std::string{number}.c_str(), nullptr));
    std::int64_t small = 0;
    std::uint64_t large = 0;
    const char* end = number.data() + number.size();
    return std::from_chars(number.data(), end, small).ec == std::errc{} ||
           (number[0] != '-' && std::from_chars(number.data(), end, large).ec == std::errc{});
  }

  /// The four hex digits behind `\u`; -1 when they are none.
  int hex4() {
    int code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      if (done() || !std::isxdigit(static_cast<unsigned char>(peek()))) return -1;
      code = code * 16 + std::stoi(std::string{peek()}, nullptr, 16);
    }
    return code;
  }

  bool escape() {
    if (done()) return fail("the text ends inside a string");
    const char c = peek();
    if (std::string_view{"\"\\/bfnrt"}.find(c) != std::string_view::npos) return ++at_, true;
    if (c != 'u') return fail("unknown escape");
    ++at_;
    const int code = hex4();
    if (code < 0) return fail("expected four hexadecimal digits");
    if (code >= 0xDC00 && code < 0xE000) return fail("lone surrogate");
    if (code < 0xD800 || code >= 0xE000) return true;
    if (!take('\\') || !take('u')) return fail("lone surrogate");
    const int low = hex4();
    return (low >= 0xDC00 && low < 0xE000) || fail("lone surrogate");
  }

  bool string() {
    ++at_;
    while (!done()) {
      const auto c = static_cast<unsigned char>(peek());
      if (c == '"') return ++at_, true;
      if (c < 0x20) return fail("control character inside a string");
      ++at_;
      if (c == '\\' && !escape()) return false;
    }
    return fail("the text ends inside a string");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::optional<json_fault> fault_;
};

}  // namespace

std::optional<json_fault> find_json_fault(std::string_view text) {
  return fault_finder{text}.run();
}

}  // namespace troupe::net
