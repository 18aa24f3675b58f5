// One request that needs the whole KV pool: a single lost block keeps it out.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>

#include "tools/client/http_exchange.hpp"

namespace troupe::chaos {

namespace asio = boost::asio;
using api_client::target;

/// A completion of `tokens` tokens in all, one of them generated; `salt` makes its prompt another
/// one each time. Returns what went wrong, or nothing.
asio::awaitable<std::string> ask_for_pool(const target&, std::uint32_t tokens, std::uint64_t salt,
                                          std::chrono::seconds timeout);

/// max_model_len of the first model card; 0 when it has none.
asio::awaitable<std::uint32_t> context_of_card(const target&);

}  // namespace troupe::chaos
