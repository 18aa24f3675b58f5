// How values become text: Python's str() and repr(), and JSON as Python's json.dumps writes it.
#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "gpu/model/jinja/parser.hpp"
#include "gpu/model/jinja/value.hpp"

namespace troupe::gpu::jinja {
namespace {

void check_size(guard& g, const text& out) {
  if (out.size() > guard::output_bytes_max) {
    g.fail("a string of more than " + std::to_string(guard::output_bytes_max) + " bytes");
  }
}

/// Appends `in` between quotes, with `escape(code point)` in place of a character when it answers
/// something.
template <class F>
void append_quoted(text& out, const text& in, char quote, F escape) {
  out.append({&quote, 1}, true);
  std::size_t plain = 0;  // start of the characters not yet copied
  for_each_character(in.str(), [&](std::size_t begin, std::size_t end, char32_t code) {
    const std::string replaced = escape(code);
    if (replaced.empty()) return;
    out.append_part(in, plain, begin);
    // An escape is as trusted as the character it stands for.
    out.append(replaced, in.trusted_at(begin));
    plain = end;
  });
  out.append_part(in, plain, in.size());
  out.append({&quote, 1}, true);
}

std::string hex(const char* prefix, char32_t code, int digits) {
  std::string out = prefix;
  for (int i = digits - 1; i >= 0; --i) out += "0123456789abcdef"[(code >> (4 * i)) & 15];
  return out;
}

std::string json_escape(char32_t code, bool ascii) {
  switch (code) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    default:
      break;
  }
  // ensure_ascii keeps what is printable in ASCII, so DEL is escaped as well.
  if (code < 0x20 || (ascii && code > 0x7E && code <= 0xFFFF)) return hex("\\u", code, 4);
  if (!ascii || code <= 0xFFFF) return {};
  // Beyond the basic plane: a pair of surrogates.
  const auto above = code - 0x10000;
  return hex("\\u", 0xD800 + (above >> 10), 4) + hex("\\u", 0xDC00 + (above & 0x3FF), 4);
}

/// A dict's key as JSON has it: always a text.
text json_key(guard& g, const value& key) {
  if (const auto* t = std::get_if<text_ref>(&key)) return **t;
  // json.dumps writes true and null as keys in JSON's spelling, numbers in Python's.
  if (const auto* b = std::get_if<bool>(&key)) return {*b ? "true" : "false", true};
  return std::holds_alternative<none>(key) ? text("null", true) : printed(g, key);
}

/// What str.isprintable holds for: nothing that is unseen but the blank.
bool is_printable(char32_t code) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return code == ' ' || (category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZS);
}

std::string repr_escape(char32_t code, char quote) {
  if (code == static_cast<unsigned char>(quote)) return {'\\', quote};
  switch (code) {
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  if (is_printable(code)) return {};
  return code < 0x100     ? hex("\\x", code, 2)
         : code < 0x10000 ? hex("\\u", code, 4)
                          : hex("\\U", code, 8);
}

/// Containers show their elements by repr(), so texts in them have quotes.
void append_repr(guard& g, text& out, const value& v) {
  g.step();
  check_size(g, out);
  if (const auto* t = std::get_if<text_ref>(&v)) {
    const auto& bytes = (*t)->str();
    // Python's repr: double quotes only where they save escapes.
    const char quote = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos ? '"' : '\'';
    append_quoted(out, **t, quote, [quote](char32_t code) { return repr_escape(code, quote); });
  } else if (const auto* l = std::get_if<list_ref>(&v)) {
    const bool tuple = (*l)->kind == list_kind::tuple;
    if (!tuple && (*l)->kind != list_kind::list)
      // Python prints an address or a type's name, which no prompt should hold.
      g.fail("a range, generator or dict view cannot be printed; use | list");
    out.append(tuple ? "(" : "[", true);
    bool first = true;
    for (const auto& element : (*l)->items) {
      if (!std::exchange(first, false)) out.append(", ", true);
      append_repr(g, out, element);
    }
    // Python marks a tuple of one with a comma.
    out.append(tuple ? ((*l)->items.size() == 1 ? ",)" : ")") : "]", true);
  } else if (const auto* d = std::get_if<dict_ref>(&v)) {
    out.append("{", true);
    bool first = true;
    for (const auto& [key, entry] : (*d)->entries) {
      if (!std::exchange(first, false)) out.append(", ", true);
      append_repr(g, out, key);
      out.append(": ", true);
      append_repr(g, out, entry);
    }
    out.append("}", true);
  } else if (is_undefined(v)) {
    out.append("Undefined", true);
  } else {
    out.append(printed(g, v));
  }
}

struct json_writer {
  guard& g;
  const json_style& style;
  text out;

  /// With an indent each element stands on a line of its own.
  void line(int depth) {
    if (style.indent >= 0)
      out.append("\n" + std::string(static_cast<std::size_t>(style.indent * depth), ' '), true);
  }
  void separator(bool first, int depth) {
    if (!first) out.append(style.comma, true);
    line(depth);
  }
  void quoted(const text& t) {
    append_quoted(out, t, '"', [this](char32_t code) { return json_escape(code, style.ascii); });
  }
  std::vector<std::pair<text, const value*>> entries_of(const dict& d) {
    std::vector<std::pair<text, const value*>> all;
    for (const auto& [key, entry] : d.entries) all.emplace_back(json_key(g, key), &entry);
    // Python sorts strings by code point, which for UTF-8 is the order of the bytes.
    if (style.sorted) {
      std::stable_sort(all.begin(), all.end(),
                       [](const auto& x, const auto& y) { return x.first.str() < y.first.str(); });
    }
    return all;
  }
  void write(const value& v, int depth) {
    g.step();
    check_size(g, out);
    if (const auto* t = std::get_if<text_ref>(&v)) {
      quoted(**t);
    } else if (const auto* l = std::get_if<list_ref>(&v)) {
      if ((*l)->kind != list_kind::list && (*l)->kind != list_kind::tuple)
        g.fail("tojson: a range, generator or dict view has no JSON form; use | list");
      out.append("[", true);
      bool first = true;
      for (const auto& element : (*l)->items) {
        separator(std::exchange(first, false), depth + 1);
        write(element, depth + 1);
      }
      if (!first) line(depth);
      out.append("]", true);
    } else if (const auto* d = std::get_if<dict_ref>(&v)) {
      out.append("{", true);
      bool first = true;
      for (const auto& [key, entry] : entries_of(**d)) {
        separator(std::exchange(first, false), depth + 1);
        quoted(key);
        out.append(style.colon, true);
        write(*entry, depth + 1);
      }
      if (!first) line(depth);
      out.append("}", true);
    } else if (const auto* b = std::get_if<bool>(&v)) {
      out.append(*b ? "true" : "false", true);
    } else if (std::holds_alternative<none>(v)) {
      out.append("null", true);
    } else if (const auto* real = std::get_if<double>(&v);
               real != nullptr && !std::isfinite(*real)) {
      // Not JSON, but what json.dumps writes.
      out.append(std::isnan(*real) ? "NaN" : *real < 0 ? "-Infinity" : "Infinity", true);
    } else if (std::holds_alternative<std::int64_t>(v) || std::holds_alternative<double>(v)) {
      out.append(printed(g, v));
    } else {
      g.fail(std::string("tojson: ") + kind_of(v) + " has no JSON form");
    }
  }
};

}  // namespace

/// Python's repr(float): the shortest digits that read back, positional for exponents -4 to 15.
std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto magnitude = std::fabs(number);
  // The bounds at which Python's repr changes its notation.
  const bool positional = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, number,
                    positional ? std::chars_format::fixed : std::chars_format::scientific)
          .ptr;
  std::string out(buffer, end);
  if (positional && out.find('.') == out.npos) out += ".0";
  return out;
}

// Python's str(): only a text shows without quotes, and undefined shows nothing.
text printed(guard& g, const value& v) {
  struct visitor {
    guard& g;
    const value& v;
    text operator()(const undefined&) const { return {}; }
    text operator()(none) const { return {"None", true}; }
    text operator()(bool b) const { return {b ? "True" : "False", true}; }
    text operator()(std::int64_t i) const { return {std::to_string(i), true}; }
    text operator()(double d) const { return {float_text(d), true}; }
    text operator()(const text_ref& t) const { return *t; }
    text operator()(const list_ref&) const { return repr(); }
    text operator()(const dict_ref&) const { return repr(); }
    text operator()(const namespace_ref&) const { g.fail("a namespace cannot be printed"); }
    text operator()(const loop_ref& l) const {
      return {"<LoopContext " + std::to_string(l->index0 + 1) + "/" +
                  std::to_string(l->items->items.size()) + ">",
              true};
    }
    text operator()(const callable_ref& c) const {
      if (c->macro == nullptr) g.fail("a function cannot be printed");
      return {"<Macro '" + c->macro->name + "'>", true};
    }
    text repr() const { return represented(g, v); }
  };
  return std::visit(visitor{g, v}, v);
}

text represented(guard& g, const value& v) {
  text out;
  append_repr(g, out, v);
  return out;
}

text json(guard& g, const value& v, const json_style& style) {
  json_writer writer{g, style, {}};
  writer.write(v, 0);
  return std::move(writer.out);
}

}  // namespace troupe::gpu::jinja
