// The product: `troupe serve MODEL`. Parses, then hands over to serve().
#include <cstdio>

#include "tools/options.hpp"
#include "tools/serve.hpp"

int main(int argc, char** argv) {
  const auto parsed = troupe::parse_options(argc, argv);
  if (const auto* stop = std::get_if<troupe::early_exit>(&parsed)) {
    std::fputs(stop->text.c_str(), stop->code == 0 ? stdout : stderr);
    return stop->code;
  }
  return troupe::serve(std::get<troupe::runtime_config>(parsed));
}
