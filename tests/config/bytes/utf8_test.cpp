#include "config/bytes/utf8.hpp"

#include <catch2/catch.hpp>

using namespace troupe;

namespace {

struct reading {
  utf8_state state;
  std::size_t length;
  bool operator==(const reading&) const = default;
};

reading first_of(std::string_view text) {
  const auto step = next_utf8(text);
  return {step.state, step.length};
}

constexpr auto whole = utf8_state::whole;
constexpr auto invalid = utf8_state::invalid;
constexpr auto incomplete = utf8_state::incomplete;

}  // namespace

TEST_CASE("utf8: every code point is written and read back, with every prefix incomplete",
          "[config]") {
  std::size_t wrong = 0;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code == 0xD800) code = 0xE000;  // surrogates are no characters
    std::string text;
    append_utf8(text, code);
    const auto step = next_utf8(text + "x");
    wrong += step.state != whole || step.code != code || step.length != text.size();
    for (std::size_t length = 1; length < text.size(); ++length)
      wrong += first_of(std::string_view(text).substr(0, length)) != reading{incomplete, length};
    for (std::size_t i = 0; i < text.size(); ++i) wrong += continues_utf8(text[i]) != (i > 0);
  }
  CHECK(wrong == 0);
}

TEST_CASE("utf8: ill-formed bytes are cut at their maximal subpart", "[config]") {
  CHECK(first_of("\x80z") == reading{invalid, 1});             // a continuation first
  CHECK(first_of("\xC0\xAF") == reading{invalid, 1});          // overlong, two bytes
  CHECK(first_of("\xE0\x80\xAF") == reading{invalid, 1});      // overlong, three bytes
  CHECK(first_of("\xF0\x80\x80\xAF") == reading{invalid, 1});  // overlong, four bytes
  CHECK(first_of("\xED\xA0\x80") == reading{invalid, 1});      // a surrogate
  CHECK(first_of("\xF4\x90\x80\x80") == reading{invalid, 1});  // past U+10FFFF
  CHECK(first_of("\xF5\x80\x80\x80") == reading{invalid, 1});
  CHECK(first_of("\xE2\x82z") == reading{invalid, 2});  // a character that breaks off
  CHECK(first_of("\xF0\x9F\x98z") == reading{invalid, 3});
}
