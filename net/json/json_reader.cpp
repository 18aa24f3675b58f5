#include "net/json/json_reader.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "net/json/json_numbers.hpp"

namespace troupe::net {
namespace {

namespace dom = simdjson::dom;

/// simdjson lets a lone low surrogate through as its three bytes; as UTF-8 they are never legal.
bool has_surrogate(std::string_view text) {
  for (std::size_t at = text.find('\xED'); at != text.npos; at = text.find('\xED', at + 1))
    if (at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) >= 0xA0) return true;
  return false;
}

/// Where the check is; written out only for a fault, since most values have none.
struct place {
  const place* above = nullptr;
  std::optional<std::string_view> key = std::nullopt;  ///< of an object; else `index` of an array
  std::size_t index = 0;
};

/// As a client would write it: messages[2].content.
std::string path_of(const place& at) {
  if (!at.above) return "";
  std::string path = path_of(*at.above);
  if (!at.key) return path + "[" + std::to_string(at.index) + "]";
  if (!path.empty()) path += '.';
  return path += *at.key;
}

/// The first duplicate key, lone surrogate or overlong object in `value`.
std::optional<api_error> check(dom::element value, const place& at) {
  if (const auto text = as_text(value); text && has_surrogate(*text))
    return invalid_value(path_of(at), "'" + path_of(at) + "' holds a lone surrogate escape.");
  if (value.is_array()) {
    place item_at{&at};
    for (const dom::element item : array_of(value)) {
      // Token prompts are long arrays of numbers: nothing in them can be wrong here.
      if (!item.is_number() && !item.is_bool())
        if (auto e = check(item, item_at)) return e;
      ++item_at.index;
    }
  }
  if (!value.is_object()) return std::nullopt;
  const dom::object object = object_of(value);
  if (object.size() > json_members_max)
    return invalid_value(path_of(at), "'" + path_of(at) + "' has " + std::to_string(object.size()) +
                                          " members, allowed are " +
                                          std::to_string(json_members_max) + ".");
  // Duplicates are refused because readers differ on which one counts (RFC 8259, 4): a proxy in
  // front may have checked the other.
  std::vector<std::string_view> keys;
  keys.reserve(object.size());
  for (const auto& [key, item] : object) {
    if (has_surrogate(key))
      return invalid_value(path_of(at), "A key holds a lone surrogate escape.");
    if (auto e = check(item, {&at, key})) return e;
    keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice == keys.end()) return std::nullopt;
  const std::string name = path_of({&at, *twice});
  return invalid_value(name, "'" + name + "' is given twice.");
}

/// A parser that no document uses, for the next one of this thread: making one allocates and frees
/// about as much as a small body needs in all.
thread_local std::unique_ptr<dom::parser> spare_parser;
/// A parser that has read a longer text is not kept: it holds about twelve times its bytes.
constexpr std::size_t kept_capacity = 64 * 1024;

simdjson::error_code parse(dom::parser& parser, std::string_view text, dom::element& root) {
  // simdjson reads past the end of its text, so it gets a copy with room behind it.
  const simdjson::padded_string padded{text};
  return parser.parse(padded).get(root);
}

}  // namespace

json_document::json_document() : parser_{std::move(spare_parser)} {
  if (!parser_) parser_ = std::make_unique<dom::parser>();
}

json_document::~json_document() {
  if (parser_->capacity() <= kept_capacity) spare_parser = std::move(parser_);
}

std::optional<api_error> json_document::parse_object(std::string_view text, const char* what) {
  // The parser grows with its texts by itself, and keeps the depth it was given first.
  if (parser_->max_depth() != json_depth_max + 1 &&
      parser_->allocate(kept_capacity / 4, json_depth_max + 1))
    return server_error("internal_error", "Out of memory while reading the body.");
  dom::element root;
  auto error = parse(*parser_, text, root);
  // Rare, so only then the text is copied once more.
  if (error == simdjson::NUMBER_ERROR) error = parse(*parser_, with_bounded_numbers(text), root);
  if (error) {
    if (error == simdjson::DEPTH_ERROR)
      return invalid_body(std::string{"The "} + what + " is nested deeper than " +
                          std::to_string(json_depth_max) + " levels.");
    const auto fault = find_json_fault(with_bounded_numbers(text));
    const std::string where = fault ? "byte " + std::to_string(fault->offset) + ": " + fault->what
                                    : std::string{simdjson::error_message(error)};
    return invalid_body(std::string{"The "} + what + " is not valid JSON: " + where + ".");
  }
  if (root.get_object().get(object_))
    return invalid_body(std::string{"The "} + what + " must be a JSON object, not " +
                        type_name(root) + ".");
  return check(root, {});
}

std::optional<dom::element> find(dom::object object, std::string_view key) {
  dom::element value;
  // Clients write null for "not set" (OpenAI's do), so it is never a value.
  if (object.at_key(key).get(value) || value.is_null()) return std::nullopt;
  return value;
}

dom::array array_of(dom::element value) {
  dom::array array;
  if (value.get_array().get(array)) return {};
  return array;
}

dom::object object_of(dom::element value) {
  dom::object object;
  if (value.get_object().get(object)) return {};
  return object;
}

std::optional<std::int64_t> as_integer(dom::element value) {
  std::int64_t integer = 0;
  if (value.is_int64() && !value.get_int64().get(integer)) return integer;
  double number = 0;
  if (!value.is_double() || value.get_double().get(number)) return std::nullopt;
  // 2^53: beyond it a double no longer names one integer.
  if (number != std::floor(number) || std::abs(number) > 9007199254740992.0) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::optional<double> as_number(dom::element value) {
  double number = 0;
  if (!value.is_number() || value.get_double().get(number)) return std::nullopt;
  return number;
}

std::optional<std::string_view> as_text(dom::element value) {
  std::string_view text;
  if (value.get_string().get(text)) return std::nullopt;
  return text;
}

const char* type_name(dom::element value) {
  switch (value.type()) {
    case dom::element_type::ARRAY:
      return "an array";
    case dom::element_type::OBJECT:
      return "an object";
    case dom::element_type::STRING:
      return "a string";
    case dom::element_type::BOOL:
      return "a boolean";
    case dom::element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

}  // namespace troupe::net
