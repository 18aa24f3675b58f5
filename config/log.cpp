#include "config/log.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>

namespace troupe {
namespace {

/// Standard error, without ever waiting for its reader: actors log from their own threads. A
/// line is written when poll says so; a pipe that is ready takes a page (PIPE_BUF) at once, so
/// longer lines are cut. What does not fit is dropped.
class unwaiting_stderr_sink final : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    pollfd ready{STDERR_FILENO, POLLOUT, 0};
    if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT)) return;
    constexpr std::size_t page = 4096;
    if (line.size() > page) {
      line.resize(page);
      line[page - 1] = '\n';
    }
    [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
  }
  void flush_() override {}
};

struct log_state {
  std::shared_ptr<spdlog::logger> out =
      std::make_shared<spdlog::logger>("troupe", std::make_shared<unwaiting_stderr_sink>());
  bool json = false;
};

log_state& state() {
  static log_state the;
  return the;
}

spdlog::level::level_enum to_spdlog(log_level level) {
  switch (level) {
    case log_level::trace:
      return spdlog::level::trace;
    case log_level::debug:
      return spdlog::level::debug;
    case log_level::info:
      return spdlog::level::info;
    case log_level::warn:
      return spdlog::level::warn;
    case log_level::error:
      return spdlog::level::err;
    case log_level::off:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

std::string to_word(const log_value& value) {
  if (const auto* text = std::get_if<std::string>(&value);
      // Without quotes where a shell's word would need none; otherwise as JSON, which escapes.
      text != nullptr && !text->empty() && text->find_first_of(" \"=\n\t") == std::string::npos)
    return *text;
  return to_json(value);
}

}  // namespace

void configure_log(const std::string& level, bool json) {
  auto& the = state();
  the.json = json;
  the.out->set_level(spdlog::level::from_str(level));
  the.out->set_pattern(json ? "%v" : "%H:%M:%S %l %v");
}

void log_event(log_level level, const std::string& event, const log_fields& fields) {
  auto& the = state();
  const auto wanted = to_spdlog(level);
  // Before the line is made.
  if (!the.out->should_log(wanted)) return;
  if (the.json) {
    const auto seconds =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    log_fields all{{"time", seconds},
                   {"level", std::string(spdlog::level::to_string_view(wanted).data())},
                   {"event", event}};
    all.insert(all.end(), fields.begin(), fields.end());
    the.out->log(wanted, "{}", to_json(all));
    return;
  }
  std::string line = event;
  for (const auto& [name, value] : fields) line += " " + name + "=" + to_word(value);
  the.out->log(wanted, "{}", line);
}

std::string to_json(const log_value& value) {
  return std::visit(
      [](const auto& x) {
        // What a client sent may be in it: bytes that are no UTF-8 are replaced, since dump() would
        // throw.
        return nlohmann::json(x).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      },
      value);
}

std::string to_json(const log_fields& fields) {
  // By hand, to keep the order of the fields.
  std::string out = "{";
  for (const auto& [name, value] : fields) {
    if (out.size() > 1) out += ',';
    out += to_json(log_value{name}) + ":" + to_json(value);
  }
  return out + "}";
}

}  // namespace troupe
