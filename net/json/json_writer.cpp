#include "net/json/json_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "config/bytes/utf8.hpp"

namespace troupe::net {
namespace {

/// Length of the well-formed UTF-8 character at the front of `s`, 0 when there is none.
std::size_t utf8_length(std::string_view s) {
  const auto step = next_utf8(s);
  return step.state == utf8_state::whole ? step.length : 0;
}

void append_ascii(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
    out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
  } else {
    out += c;
  }
}

/// A character at which common line readers (Python's splitlines, httpx's iter_lines) cut although
/// JSON and Server-Sent Events do not: U+0085, U+2028, U+2029. Its escape, or nothing.
std::string_view line_break_escape(std::string_view character) {
  if (character == "\xC2\x85") return "\\u0085";
  if (character == "\xE2\x80\xA8") return "\\u2028";
  return character == "\xE2\x80\xA9" ? "\\u2029" : "";
}

}  // namespace

std::string on_one_line(std::string_view json) {
  std::string out;
  while (!json.empty()) {
    // A byte that is no character is passed on as it is.
    const std::size_t n = std::max<std::size_t>(utf8_length(json), 1);
    const std::string_view escape = n == 1 ? "" : line_break_escape(json.substr(0, n));
    out += escape.empty() ? json.substr(0, n) : escape;
    json.remove_prefix(n);
  }
  return out;
}

void append_json_escaped(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const std::size_t n = utf8_length(text);
    if (n == 1) {
      append_ascii(out, text.front());
      // A token may end within a character, and JSON must be UTF-8 (RFC 8259, 8.1).
    } else if (n == 0) {
      out += replacement_character;
    } else {
      const std::string_view escape = line_break_escape(text.substr(0, n));
      out += escape.empty() ? text.substr(0, n) : escape;
    }
    text.remove_prefix(n == 0 ? 1 : n);
  }
}

// Stricter than "no bad byte": a character that is cut at the end is not whole.
bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t n = utf8_length(text);
    if (n == 0) return false;
    text.remove_prefix(n);
  }
  return true;
}

// The last byte says whether a comma is due; no stack of open brackets is needed.
void json_writer::separate() {
  if (out_.empty()) return;
  const char last = out_.back();
  if (last != '{' && last != '[' && last != ':') out_ += ',';
}

json_writer& json_writer::open(char bracket) {
  separate();
  out_ += bracket;
  return *this;
}

json_writer& json_writer::key(std::string_view name) {
  string(name);
  out_ += ':';
  return *this;
}

json_writer& json_writer::string(std::string_view text) {
  separate();
  out_ += '"';
  append_json_escaped(out_, text);
  out_ += '"';
  return *this;
}

json_writer& json_writer::number(double value) {
  return std::isfinite(value) ? raw(fmt::format("{}", value)) : null();
}

// As a float it is written with the fewest digits that give it back: 0.7, not 0.699999988.
json_writer& json_writer::number(float value) {
  return std::isfinite(value) ? raw(fmt::format("{}", value)) : null();
}

// Trusted to be JSON; only the comma before it is this writer's.
json_writer& json_writer::raw(std::string_view json) {
  separate();
  out_ += json;
  return *this;
}

}  // namespace troupe::net
