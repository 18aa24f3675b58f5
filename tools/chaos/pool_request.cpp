#include "tools/chaos/pool_request.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace troupe::chaos {

using nlohmann::json;

asio::awaitable<std::string> ask_for_pool(const target& to, std::uint32_t tokens,
                                          std::uint64_t salt, std::chrono::seconds timeout) {
  json prompt = json::array();
  for (std::uint32_t i = 0; i + 1 < tokens; ++i) prompt.push_back(1000 + (i + salt) % 997);
  json body{
      {"prompt", std::move(prompt)}, {"max_tokens", 1}, {"temperature", 0}, {"ignore_eos", true}};
  if (!to.address.model.empty()) body["model"] = to.address.model;
  api_client::http_exchange exchange{to};
  std::string problem;
  try {
    const auto reply =
        co_await exchange.ask(post_text(to.address, "/v1/completions", body.dump()), timeout);
    if (!reply.complete())
      problem = reply.error();
    else if (const auto said = json::parse(reply.body(), nullptr, false); said.contains("usage")) {
      const auto used = said["usage"].value("total_tokens", std::uint32_t{0});
      if (used != tokens) problem = fmt::format("{} tokens were used instead of {}", used, tokens);
    }
  } catch (const std::exception& error) {
    problem = error.what();
  }
  co_return problem;
}

asio::awaitable<std::uint32_t> context_of_card(const target& to) {
  api_client::http_exchange exchange{to};
  const auto reply = co_await exchange.ask(get_text(to.address, "/v1/models"));
  const auto cards = json::parse(reply.body(), nullptr, false);
  if (!cards.is_object() || !cards.contains("data") || cards["data"].empty()) co_return 0u;
  const auto& card = cards["data"][0];
  co_return card.contains("max_model_len") && card["max_model_len"].is_number()
      ? card["max_model_len"].get<std::uint32_t>()
      : 0u;
}

}  // namespace troupe::chaos
