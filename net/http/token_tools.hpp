// The answers of /tokenize, /detokenize and /tokenizer_info. Pure but for the engine's tokenizer;
// no socket.
#pragma once
#include <string_view>

#include "actors/api/generation.hpp"
#include "net/api/wire_in.hpp"
#include "net/http/http_message.hpp"

namespace troupe::net {

http_reply tokenize(std::string_view body, const core::generation_engine&, const wire_limits&);
http_reply detokenize(std::string_view body, const core::generation_engine&, const wire_limits&);
http_reply tokenizer_info(const core::generation_engine&);

}  // namespace troupe::net
