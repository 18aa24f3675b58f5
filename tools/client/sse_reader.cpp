#include "tools/client/sse_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe::api_client {
namespace {

constexpr std::size_t event_bytes_max = 1 << 20;

}  // namespace

void sse_reader::feed(std::string_view bytes, const event_call& on_event) {
  while (!bytes.empty()) {
    if (std::exchange(after_cr_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const auto end =
        std::find_if(bytes.begin(), bytes.end(), [](char c) { return c == '\n' || c == '\r'; });
    line_.append(bytes.begin(), end);
    if (line_.size() + data_.size() > event_bytes_max)
      throw std::runtime_error(fmt::format("an event of more than {} bytes", event_bytes_max));
    if (end == bytes.end()) return;
    after_cr_ = *end == '\r';
    bytes.remove_prefix(static_cast<std::size_t>(end - bytes.begin()) + 1);
    take_line(on_event);
    line_.clear();
  }
}

void sse_reader::take_line(const event_call& on_event) {
  if (line_.empty()) {
    if (std::exchange(has_data_, false)) on_event(data_);
    data_.clear();
    return;
  }
  constexpr std::string_view field = "data:";
  std::string_view line = line_;
  if (!line.starts_with(field)) return;
  line.remove_prefix(field.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (std::exchange(has_data_, true)) data_ += '\n';
  data_ += line;
}

}  // namespace troupe::api_client
