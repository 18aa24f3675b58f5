#include "net/server/random_id.hpp"

#include <sys/random.h>

#include <array>
#include <stdexcept>

namespace troupe::net {
namespace {

template <class Bytes>
/// From the kernel: whoever knows an id may cancel its request, so none may be guessed.
void fill(Bytes& bytes) {
  auto* at = reinterpret_cast<char*>(&bytes);
  std::size_t left = sizeof bytes;
  while (left > 0) {
    const ssize_t got = ::getrandom(at, left, 0);
    if (got <= 0) throw std::runtime_error("the kernel gives no random bytes");
    at += got;
    left -= static_cast<std::size_t>(got);
  }
}

}  // namespace

std::string random_id(std::string_view prefix) {
  // 128 bits: ids are not compared with earlier ones.
  std::array<unsigned char, 16> bytes{};
  fill(bytes);
  static constexpr char digits[] = "0123456789abcdef";
  std::string id{prefix};
  for (const unsigned char b : bytes) {
    id += digits[b >> 4];
    id += digits[b & 15];
  }
  return id;
}

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  fill(seed);
  return seed;
}

}  // namespace troupe::net
