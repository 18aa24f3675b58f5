#include "net/json/json_numbers.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace troupe::net {
namespace {

/// The number's form: `whole` without fraction and exponent. What is not JSON is none.
enum class form { none, whole, real };

/// The grammar of RFC 8259 (6).
form form_of(std::string_view token) {
  std::size_t at = token.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const std::size_t from = at;
    while (at < token.size() && token[at] >= '0' && token[at] <= '9') ++at;
    return at - from;
  };
  const std::size_t first = at;
  const std::size_t count = digits();
  // A leading zero is not JSON.
  if (count == 0 || (count > 1 && token[first] == '0')) return form::none;
  if (at == token.size()) return form::whole;
  if (token[at] == '.' && (++at, digits() == 0)) return form::none;
  if (at < token.size() && (token[at] == 'e' || token[at] == 'E')) {
    ++at;
    if (at < token.size() && (token[at] == '+' || token[at] == '-')) ++at;
    if (digits() == 0) return form::none;
  }
  return at == token.size() ? form::real : form::none;
}

template <class Integer>
bool holds(std::string_view token) {
  Integer value{};
  return std::from_chars(token.data(), token.data() + token.size(), value).ec == std::errc{};
}

/// As many bytes as before, so that the byte a later mistake is reported at is the client's own.
std::string bounded(std::string token) {
  const form is = form_of(token);
  if (is == form::none) return token;
  if (is == form::whole && (holds<std::int64_t>(token) || holds<std::uint64_t>(token)))
    return token;
  if (std::isinf(std::strtod(token.c_str(), nullptr))) {
    // The shortest such number, 2e308, has as many bytes.
    const std::string most = token.front() == '-' ? "-9e307" : "9e307";
    return most + std::string(token.size() - most.size(), ' ');
  }
  // Beyond 64 bits it has nineteen digits or more: the last two become an exponent, which makes it
  // a double of the same magnitude.
  if (is == form::whole) token.replace(token.size() - 2, 2, "e2");
  return token;
}

}  // namespace

std::string with_bounded_numbers(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (std::size_t at = 0; at < json.size();) {
    const char c = json[at];
    std::size_t end = at + 1;
    // Strings are copied as a whole: digits in them are text.
    if (c == '"') {
      while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, json.size());
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      end = std::min(json.find_first_not_of("0123456789+-.eE", at), json.size());
      out += bounded(std::string{json.substr(at, end - at)});
      at = end;
      continue;
    }
    out += json.substr(at, end - at);
    at = end;
  }
  return out;
}

}  // namespace troupe::net
