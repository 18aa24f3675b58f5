// Writes JSON text: commas, escapes, numbers. Bytes that are not UTF-8 become U+FFFD, numbers that
// JSON cannot hold become null. Never reorders or checks keys.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::net {

/// Appends `text` without quotes, escaped. Every character at which some reader ends a line is
/// escaped too, so that an event stays one line for all of them.
void append_json_escaped(std::string& out, std::string_view text);
/// JSON made elsewhere with the same characters escaped.
std::string on_one_line(std::string_view json);
/// Whole, well-formed characters throughout.
bool is_utf8(std::string_view text);

class json_writer {
 public:
  json_writer& open_object() { return open('{'); }
  json_writer& close_object() { return out_ += '}', *this; }
  json_writer& open_array() { return open('['); }
  json_writer& close_array() { return out_ += ']', *this; }
  json_writer& key(std::string_view name);
  json_writer& string(std::string_view text);
  json_writer& number(double value);
  json_writer& number(float value);
  template <std::integral Integer>
  json_writer& number(Integer value) {
    return raw(std::to_string(value));
  }
  json_writer& boolean(bool value) { return raw(value ? "true" : "false"); }
  json_writer& null() { return raw("null"); }
  /// JSON made elsewhere.
  json_writer& raw(std::string_view json);

  const std::string& text() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  json_writer& open(char bracket);
  void separate();
  std::string out_;
};

}  // namespace troupe::net
