// The part of parsing that every endpoint shares: a body checked against the field table, then read
// field by field. Only fields that the table has for the endpoint are seen at all, so what is read
// has been checked. Internal to the wire; throws api_error inside, caught by the parse functions of
// wire_in.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/api/generation.hpp"
#include "net/api/api_table.hpp"
#include "net/api/wire_in.hpp"
#include "net/json/json_reader.hpp"

namespace troupe::net {

class wire_fields {
 public:
  /// Checks every known field's type and range; throws api_error.
  wire_fields(simdjson::dom::object, endpoint_bit, const wire_limits&);

  std::optional<simdjson::dom::element> get(std::string_view name) const;
  bool boolean(std::string_view name, bool fallback) const;
  std::int64_t integer(std::string_view name, std::int64_t fallback) const;
  float number(std::string_view name, float fallback) const;
  std::optional<std::string> text(std::string_view name) const;
  const wire_limits& limits() const { return limits_; }

  /// The served model; throws 404 model_not_found.
  std::string model() const;
  /// How the prompt becomes tokens; the prompt itself is the endpoint's to read.
  core::generation_request text_request() const;
  /// The same, with sampling, stops, deadlines and the rest that does not depend on the endpoint.
  core::generation_request sampling_request() const;
  std::vector<core::chat_message> messages(std::string_view name) const;
  /// tools that would have to be used: throws unsupported_parameter.
  void refuse_tools() const;
  token_id token(simdjson::dom::element, const std::string& param) const;
  /// A list of token ids.
  std::vector<token_id> tokens(simdjson::dom::array, const std::string& param) const;
  token_id token(std::int64_t, const std::string& param) const;

  /// The first id that is no token.
  std::int64_t token_end() const {
    return limits_.vocab > 0 ? limits_.vocab : std::int64_t{1} << 31;
  }

 private:
  bool is_token(std::int64_t id) const { return id >= 0 && id < token_end(); }

  std::vector<std::pair<std::string_view, simdjson::dom::element>> checked_;
  const wire_limits& limits_;
};

api_error wrong_type(const std::string& param, const char* wanted, simdjson::dom::element got);

/// The text of a message's content: a string, null when `null_is_empty`, or an array of text parts.
std::string content_text(std::optional<simdjson::dom::element>, const std::string& param,
                         bool null_is_empty);

}  // namespace troupe::net
