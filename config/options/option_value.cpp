#include "config/options/option_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <type_traits>

namespace troupe {
namespace {

using kind = given_value::kind;

template <class T>
constexpr bool is_whole_field =
    std::is_same_v<T, std::uint16_t> || std::is_same_v<T, std::uint32_t> ||
    std::is_same_v<T, std::optional<std::uint32_t>>;

/// As it was typed, with its type where the type is what is wrong with it.
std::string shown(const given_value& given) {
  switch (given.type) {
    case kind::string:
      return "the string \"" + given.text + "\"";
    case kind::list:
      return "a list";
    case kind::word:
      return "'" + given.text + "'";
    default:
      return given.text;
  }
}

/// A limit in the words of its option: sizes in binary units, other numbers without an exponent.
std::string bound(const option_spec& spec, double value) {
  if (std::holds_alternative<std::uint64_t runtime_config::*>(spec.field))
    return value == 0 ? "0" : exact_size(static_cast<std::uint64_t>(value));
  return fmt::format("{:.15g}", value);
}

/// "70000 is outside 0..65535"
std::string outside(const option_spec& spec, const std::string& value) {
  return value + " is outside " + range_text(spec);
}

/// "'x' is not a whole number, 0..65535"
std::string not_a(const option_spec& spec, const given_value& given, const std::string& what) {
  const auto range = range_text(spec);
  return shown(given) + " is not " + what + (range.empty() ? "" : ", " + range);
}

bool is_choice(const option_spec& spec, const std::string& text) {
  return spec.choices.empty() ||
         std::find(spec.choices.begin(), spec.choices.end(), text) != spec.choices.end();
}

std::string not_a_choice(const option_spec& spec, const std::string& text) {
  return "'" + text + "' is not " + range_text(spec);
}

/// -?[0-9]+ of any length.
bool is_whole_number(const std::string& text) {
  // Beyond 64 bits it is still a number, only too large: the message must say which of the two it
  // is.
  const std::size_t start = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  return text.size() > start &&
         std::all_of(text.begin() + static_cast<std::ptrdiff_t>(start), text.end(),
                     [](unsigned char ch) { return std::isdigit(ch); });
}

std::string assign_whole(const option_spec& spec, const given_value& given, std::uint64_t& value) {
  // A string in the file is refused although it holds digits: TOML has types, and a quoted number
  // is more often a slip. The command line and the environment have words only.
  if ((given.type != kind::word && given.type != kind::integer) || !is_whole_number(given.text))
    return not_a(spec, given, "a whole number");
  const std::string digits = given.text[0] == '+' ? given.text.substr(1) : given.text;
  std::int64_t number = 0;
  const auto end = digits.data() + digits.size();
  if (std::from_chars(digits.data(), end, number).ec != std::errc{} ||
      static_cast<double>(number) < spec.low ||
      (spec.choices.empty() && static_cast<double>(number) > spec.high))
    return spec.choices.empty() ? outside(spec, given.text) : not_a_choice(spec, given.text);
  if (!is_choice(spec, std::to_string(number))) return not_a_choice(spec, given.text);
  // `low` is never negative for a whole number.
  value = static_cast<std::uint64_t>(number);
  return {};
}

std::string assign_real(const option_spec& spec, const given_value& given, double& value) {
  const bool typed =
      given.type == kind::word || given.type == kind::integer || given.type == kind::real;
  const std::string digits =
      !given.text.empty() && given.text[0] == '+' ? given.text.substr(1) : given.text;
  double number = 0;
  const auto end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, number);
  if (!typed || read.ptr != end || read.ec == std::errc::invalid_argument || std::isnan(number))
    return not_a(spec, given, "a number");
  // `!(a && b)` and not the opposite comparisons; an overflow leaves `number` alone and shows in
  // `ec`.
  if (read.ec != std::errc{} || !(number >= spec.low && number <= spec.high))
    return outside(spec, given.text);
  value = number;
  return {};
}

std::string assign_size(const option_spec& spec, const given_value& given, std::uint64_t& value) {
  std::string text = given.text;
  const bool plain = !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
  const bool negative =
      text.size() > 1 && text[0] == '-' && std::isdigit(static_cast<unsigned char>(text[1]));
  if (given.type == kind::boolean || given.type == kind::list || given.type == kind::other ||
      // 1.5 as a number of bytes means nothing; as GiB it does.
      (given.type == kind::real && spec.plain_unit == 1))
    return not_a(spec, given, "a size such as \"512MiB\"");
  if (negative) return outside(spec, text);
  // vLLM's unit for this option.
  if (plain && spec.plain_unit == 1ull << 30) text += "GiB";
  const auto bytes = parse_size(text);
  if (!bytes) return not_a(spec, given, "a size such as 512MiB or 1.5GiB");
  if (static_cast<double>(*bytes) < spec.low || static_cast<double>(*bytes) > spec.high)
    return outside(spec, given.text);
  value = *bytes;
  return {};
}

std::string assign_flag(const option_spec& spec, const given_value& given, bool& value) {
  std::string text = given.text;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char ch) { return std::tolower(ch); });
  constexpr std::array yes{"true", "1", "on", "yes"}, no{"false", "0", "off", "no"};
  const bool typed = given.type == kind::word || given.type == kind::boolean;
  const bool on = std::find(yes.begin(), yes.end(), text) != yes.end();
  if (!typed || (!on && std::find(no.begin(), no.end(), text) == no.end()))
    return shown(given) + " is not true or false";
  // The field says the opposite of what the option's name asks for.
  value = on != spec.inverted;
  return {};
}

std::string assign_text(const option_spec& spec, const given_value& given, std::string& value) {
  if (given.type != kind::word && given.type != kind::string) return not_a(spec, given, "a string");
  // The text goes to system calls, which would end it there.
  if (given.text.find('\0') != std::string::npos) return "a text with a NUL character";
  if (!is_choice(spec, given.text)) return not_a_choice(spec, given.text);
  value = given.text;
  return {};
}

std::vector<std::string> split_commas(const std::string& text) {
  std::vector<std::string> out;
  // An item may be empty, also behind the last comma: whether that is a mistake is the option's to
  // say.
  for (std::size_t at = 0; !text.empty() && at <= text.size();) {
    const auto comma = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return out;
}

std::string assign_list(const option_spec& spec, const given_value& given,
                        std::vector<std::string>& value) {
  if (given.type == kind::word)
    value = split_commas(given.text);
  else if (given.type == kind::string)
    value = {given.text};
  else if (given.type == kind::list)
    value = given.items;
  else
    return not_a(spec, given, "a list of strings");
  if (spec.splits_commas) {
    std::vector<std::string> all;
    for (const auto& item : value)
      for (auto& part : split_commas(item)) all.push_back(std::move(part));
    value = std::move(all);
  }
  return {};
}

/// A TOML basic string.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char ch : text) {
    const auto byte = static_cast<unsigned char>(ch);
    if (ch == '"' || ch == '\\')
      out += std::string("\\") + ch;
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\u{:04X}", byte);
    else
      out += ch;
  }
  return out + "\"";
}

}  // namespace

// One function for each type of field, chosen by the field that the table names: a new option needs
// no code here.
std::string assign(const option_spec& spec, const given_value& given, runtime_config& config) {
  return std::visit(
      [&](const auto field) -> std::string {
        auto& target = config.*field;
        using target_type = std::remove_reference_t<decltype(target)>;
        if constexpr (is_whole_field<target_type>) {
          std::uint64_t value = 0;
          auto problem = assign_whole(spec, given, value);
          if (problem.empty()) {
            if constexpr (std::is_same_v<target_type, std::uint16_t>)
              target = static_cast<std::uint16_t>(value);
            else
              target = static_cast<std::uint32_t>(value);
          }
          return problem;
        } else if constexpr (std::is_same_v<target_type, std::uint64_t>) {
          return assign_size(spec, given, target);
        } else if constexpr (std::is_same_v<target_type, double>) {
          return assign_real(spec, given, target);
        } else if constexpr (std::is_same_v<target_type, bool>) {
          return assign_flag(spec, given, target);
        } else if constexpr (std::is_same_v<target_type, std::string>) {
          return assign_text(spec, given, target);
        } else {
          return assign_list(spec, given, target);
        }
      },
      spec.field);
}

// For a config that a program filled in by hand; what was read from text has passed assign()
// already.
std::string range_problem(const option_spec& spec, const runtime_config& config) {
  const auto checked = [&](double value, const std::string& text) -> std::string {
    if (!spec.choices.empty()) return is_choice(spec, text) ? "" : not_a_choice(spec, text);
    return value >= spec.low && value <= spec.high ? "" : outside(spec, text);
  };
  return std::visit(
      [&](const auto field) -> std::string {
        const auto& value = config.*field;
        using value_type = std::remove_cv_t<std::remove_reference_t<decltype(value)>>;
        if constexpr (std::is_same_v<value_type, std::optional<std::uint32_t>>)
          return value ? checked(*value, std::to_string(*value)) : "";
        else if constexpr (std::is_same_v<value_type, std::uint64_t>)
          return checked(static_cast<double>(value), exact_size(value));
        else if constexpr (std::is_same_v<value_type, std::string>)
          return is_choice(spec, value) ? "" : not_a_choice(spec, value);
        else if constexpr (std::is_arithmetic_v<value_type> && !std::is_same_v<value_type, bool>)
          return checked(static_cast<double>(value), fmt::format("{}", value));
        else
          return {};
      },
      spec.field);
}

std::string value_text(const option_spec& spec, const runtime_config& config) {
  return std::visit(
      [&](const auto field) -> std::string {
        const auto& value = config.*field;
        using value_type = std::remove_cv_t<std::remove_reference_t<decltype(value)>>;
        // Written as the option is read, so that a printed configuration can be given back.
        if constexpr (std::is_same_v<value_type, bool>) {
          return value != spec.inverted ? "true" : "false";
        } else if constexpr (std::is_same_v<value_type, std::uint64_t>) {
          return value == 0 ? "0" : quoted(exact_size(value));
        } else if constexpr (std::is_same_v<value_type, std::optional<std::uint32_t>>) {
          return value ? std::to_string(*value) : "";
        } else if constexpr (std::is_same_v<value_type, std::string>) {
          return value.empty() ? "" : spec.secret ? "\"***\"" : quoted(value);
        } else if constexpr (std::is_same_v<value_type, std::vector<std::string>>) {
          std::string out;
          for (const auto& item : value)
            out += (out.empty() ? "[" : ", ") + (spec.secret ? "\"***\"" : quoted(item));
          return out.empty() ? "" : out + "]";
        } else {
          return fmt::format("{}", value);
        }
      },
      spec.field);
}

// For messages and for --help alike.
std::string range_text(const option_spec& spec) {
  if (is_flag(spec)) return "true or false";
  if (!spec.choices.empty()) {
    std::string out;
    for (std::size_t i = 0; i < spec.choices.size(); ++i)
      out += (i == 0 ? "" : i + 1 == spec.choices.size() ? " or " : ", ") + spec.choices[i];
    return out;
  }
  if (is_list(spec) || std::holds_alternative<std::string runtime_config::*>(spec.field)) return {};
  return bound(spec, spec.low) + ".." + bound(spec, spec.high);
}

std::string exact_size(std::uint64_t bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  // Only as far as nothing is lost, or the value would not read back as itself.
  for (; bytes != 0 && bytes % 1024 == 0 && unit + 1 < units.size(); bytes /= 1024) ++unit;
  return std::to_string(bytes) + units[unit];
}

}  // namespace troupe
