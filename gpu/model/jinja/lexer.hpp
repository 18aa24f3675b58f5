// Cuts a template into data and the tokens of its tags, with Jinja's white-space control
// (trim_blocks and lstrip_blocks on, as chat templates expect). Tokens are views of the source,
// which must outlive them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/model/jinja/value.hpp"

namespace troupe::gpu::jinja {

enum class token_kind : std::uint8_t {
  data,         ///< text between tags; already trimmed
  print_begin,  ///< {{
  print_end,    ///< }}
  tag_begin,    ///< {%
  tag_end,      ///< %}
  name,
  string,  ///< with its quotes and escapes
  integer,
  floating,
  symbol,  ///< an operator or a bracket
  end
};

struct token {
  token_kind kind = token_kind::end;
  std::uint32_t at = 0;  ///< offset in the source
  std::string_view body;
};

/// Line ends as \n, without the one newline that may end a template.
std::string normalized(std::string_view source);

/// Throws template_error through `g`. The last token is `end`.
std::vector<token> tokenize(guard& g, std::string_view source);

/// The text a string token stands for.
std::string unescaped(std::string_view quoted_body);

}  // namespace troupe::gpu::jinja
