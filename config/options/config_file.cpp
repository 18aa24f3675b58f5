#include "config/options/config_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "config/checks/toml_screen.hpp"

namespace troupe {
namespace {

using kind = given_value::kind;

// Bytes; a whole configuration has a hundred lines.
constexpr std::size_t file_limit = 1 << 20;

std::string real_text(double value) {
  return fmt::format("{}", value);
}

std::string type_words(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list of other things than strings";
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      return "a date or time";
    default:
      return "an unknown kind of value";
  }
}

/// The type stays with the value: option_value decides what an option takes.
given_value value_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return {kind::string, text->get(), {}};
  if (const auto* number = node.as_integer())
    return {kind::integer, std::to_string(number->get()), {}};
  if (const auto* real = node.as_floating_point()) return {kind::real, real_text(real->get()), {}};
  if (const auto* flag = node.as_boolean())
    return {kind::boolean, flag->get() ? "true" : "false", {}};
  const auto* list = node.as_array();
  if (list == nullptr) return {kind::other, type_words(node), {}};
  given_value out{kind::list, "a list", {}};
  for (const auto& item : *list) {
    const auto* text = item.as_string();
    if (text == nullptr) return {kind::other, type_words(node), {}};
    out.items.push_back(text->get());
  }
  return out;
}

/// The parser's sentence may hold line breaks and quoted text of any length.
std::string one_line(std::string_view text) {
  constexpr std::size_t longest = 200;
  std::string out(text.substr(0, longest));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char ch) { return ch < 0x20 || ch == 0x7f; }, ' ');
  return out;
}

}  // namespace

config_file parse_config_text(const std::string& text, const std::string& path) {
  config_file out;
  const auto screened = screen_toml(text);
  for (const auto& [line, problem] : screened.problems)
    out.problems.push_back(fmt::format("{}:{}: {}", path, line, one_line(problem)));
  if (!screened.parse) return out;
  try {
    const toml::table table = toml::parse(screened.text);
    for (const auto& [key, node] : table)
      out.settings.push_back({std::string(key.str()), key.source().begin.line, value_of(node)});
  } catch (const toml::parse_error& e) {
    out.problems.push_back(
        fmt::format("{}:{}: {}", path, e.source().begin.line, one_line(e.description())));
  }
  // The parser's table is sorted by name; problems are listed in the order of the file.
  std::stable_sort(out.settings.begin(), out.settings.end(),
                   [](const auto& a, const auto& b) { return a.line < b.line; });
  return out;
}

config_file read_config_file(const std::string& path) {
  const auto failed = [&](const std::string& why) {
    return config_file{{}, {"--config: " + path + ": " + why}};
  };
  // By descriptor and not by stream: the reason of a failure, and what the path is, are told in the
  // system's words.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failed(std::strerror(errno));
  struct stat status {};
  std::string text;
  std::string problem;
  if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) problem = "is a directory";
  // A pipe or a device has no size to ask for; one part beyond the limit is enough to know.
  while (problem.empty() && text.size() <= file_limit) {
    char buffer[1 << 16];
    const auto got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) problem = std::strerror(errno);
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  close(fd);
  if (!problem.empty()) return failed(problem);
  if (text.size() > file_limit) return failed("is larger than 1 MiB");
  return parse_config_text(text, path);
}

}  // namespace troupe
