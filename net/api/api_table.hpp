// Every request field of every endpoint: type, range, default and how far this release goes.
// wire_in checks bodies against it before it reads them; the README's table of fields is this one.
#pragma once
#include <cstdint>
#include <span>

namespace troupe::net {

enum class field_type : std::uint8_t {
  any,
  boolean,
  integer,
  number,
  text,
  text_or_list,
  list,
  object
};

enum class field_level : std::uint8_t {
  implemented,
  ignored,   ///< accepted whatever it holds
  rejected,  ///< 400 unsupported_parameter when it differs from the default
};

/// Bits of api_field::endpoints.
enum endpoint_bit : unsigned {
  on_chat = 1,
  on_completions = 2,
  on_responses = 4,
  on_tokenize = 8,
  on_detokenize = 16,
};

struct api_field {
  const char* name;
  unsigned endpoints;
  field_type type;
  double min, max;       ///< for numbers; min > max: no range
  const char* fallback;  ///< the default as JSON; "" = absent
  field_level level;
};

std::span<const api_field> api_fields();

}  // namespace troupe::net
