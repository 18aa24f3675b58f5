// Renders one template file, so that tests/e2e can hold the engine against Python's Jinja2:
//   render_template TEMPLATE.jinja < request.json
// The request has `messages` (objects of role and content, both strings), `add_generation_prompt`,
// `bos_token`, `eos_token` and `now` (seconds since 1970). The text goes to stdout; an error goes
// to stderr, with exit code 1.
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "gpu/model/chat_template.hpp"

int main(int count, char** arguments) {
  using namespace troupe::gpu;
  try {
    if (count != 2) throw std::invalid_argument("usage: render_template TEMPLATE < request.json");
    std::ifstream file(arguments[1], std::ios::binary);
    if (!file) throw std::invalid_argument(std::string("cannot read ") + arguments[1]);
    const std::string source(std::istreambuf_iterator<char>(file), {});
    const auto request = nlohmann::json::parse(std::cin);
    std::vector<chat_turn> messages;
    for (const auto& turn : request.at("messages"))
      messages.push_back({turn.at("role"), turn.at("content")});
    const auto subject =
        chat_template::compile(source, request.at("bos_token"), request.at("eos_token"));
    const std::chrono::system_clock::time_point now(
        std::chrono::seconds(request.at("now").get<std::int64_t>()));
    for (const auto& span :
         subject.render(messages, request.at("add_generation_prompt").get<bool>(), now))
      std::cout << span.text;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
