// A JSON document read strictly: UTF-8, one value and nothing behind it, no duplicate keys, no lone
// surrogates, at most 64 levels, 4,096 members of an object. Wraps simdjson's DOM; the views it
// gives live as long as the document.
#pragma once
#include <simdjson.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/api/api_error.hpp"

namespace troupe::net {

inline constexpr std::size_t json_depth_max = 64;
inline constexpr std::size_t json_members_max = 4096;  ///< of one object

class json_document {
 public:
  json_document();
  ~json_document();
  json_document(const json_document&) = delete;
  json_document& operator=(const json_document&) = delete;

  /// Nothing when sound; then object() is valid. `what` names the text in messages ("request
  /// body").
  std::optional<api_error> parse_object(std::string_view text, const char* what);
  simdjson::dom::object object() const { return object_; }

 private:
  std::unique_ptr<simdjson::dom::parser> parser_;  ///< the thread's, while this document lives
  simdjson::dom::object object_;
};

/// Absent and null are the same.
std::optional<simdjson::dom::element> find(simdjson::dom::object, std::string_view key);
/// An integer, also when written 2.0; nothing when it is none or does not fit.
std::optional<std::int64_t> as_integer(simdjson::dom::element);
std::optional<double> as_number(simdjson::dom::element);
std::optional<std::string_view> as_text(simdjson::dom::element);
/// By value, so that a range-for may loop over them; for elements known to be one.
simdjson::dom::array array_of(simdjson::dom::element);
simdjson::dom::object object_of(simdjson::dom::element);
/// "a string", "an array", ... for messages.
const char* type_name(simdjson::dom::element);

/// Where text that is not JSON stops being JSON, and why.
struct json_fault {
  std::size_t offset = 0;
  std::string what;
};
std::optional<json_fault> find_json_fault(std::string_view text);

}  // namespace troupe::net
