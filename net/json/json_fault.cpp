// Where and why a text is not JSON. Runs only on texts that simdjson has refused, which names
// neither: nlohmann's parser reads on without a tree, and without recursion, to its first error.
#include <nlohmann/json.hpp>

#include "net/json/json_reader.hpp"

namespace troupe::net {
namespace {

using nlohmann::json;

/// Keeps the first error and nothing else.
class first_error final : public json::json_sax_t {
 public:
  std::optional<json_fault> fault;

  // Every value is passed over; parse_error ends the reading.
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }

  /// `position` counts the byte that was wrong, so from 1.
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    std::string_view what = e.what();
    // "[json.exception..] parse error at line 1, column 9: syntax error while parsing value - WHY;
    // last read: 'all of a string, however long'"
    if (const std::size_t dash = what.find(" - "); dash != what.npos) what.remove_prefix(dash + 3);
    what = what.substr(0, what.find("; last read: "));
    fault = json_fault{position > 0 ? position - 1 : 0, std::string{what}};
    return false;
  }
};

}  // namespace

std::optional<json_fault> find_json_fault(std::string_view text) {
  first_error finder;
  json::sax_parse(text, &finder);
  return std::move(finder.fault);
}

}  // namespace troupe::net
