#include "actors/embedding/prewarm.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

#include "actors/core/blocks/prefix_index.hpp"
#include "config/request_limits.hpp"

namespace troupe {
namespace {

using nlohmann::json;

/// A line that is not a prompt; what() says why.
struct line_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// nlohmann keeps the last of two equal fields, which would hide a mistake: the callback sees every
/// key.
json parse_line(std::string_view line) {
  std::set<std::string> names;
  std::string twice;
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key && depth == 1 &&
        !names.insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  try {
    auto parsed = json::parse(line.begin(), line.end(), watch);
    if (!twice.empty()) throw line_error("duplicate field " + twice);
    if (!parsed.is_object())
      throw line_error("must be an object, {\"prompt\": \"...\"} or {\"messages\": [...]}");
    return parsed;
  } catch (const json::parse_error& e) {
    throw line_error("not JSON, character " + std::to_string(e.byte));
  }
}

std::string text_of(const json& object, const char* name, const std::string& where) {
  const auto at = object.find(name);
  if (at == object.end()) throw line_error(where + " is missing");
  if (!at->is_string()) throw line_error(where + " must be a string, not " + at->type_name());
  return at->get<std::string>();
}

std::vector<core::chat_message> messages_of(const json& list) {
  if (!list.is_array() || list.empty())
    throw line_error("messages must be an array of at least one message");
  std::vector<core::chat_message> out;
  for (const auto& message : list) {
    const auto where = "messages[" + std::to_string(out.size()) + "]";
    if (!message.is_object())
      throw line_error(where + " must be an object, not " + message.type_name());
    out.push_back({text_of(message, "role", where + ".role"),
                   text_of(message, "content", where + ".content")});
  }
  return out;
}

core::generation_request request_of(const json& line) {
  for (const auto& [name, value] : line.items())
    if (name != "prompt" && name != "messages" && name != "cache_salt")
      throw line_error("unknown field " + name +
                       "; the fields are prompt, messages and cache_salt");
  if (line.contains("prompt") == line.contains("messages"))
    throw line_error("needs exactly one of prompt and messages");
  core::generation_request out;
  if (line.contains("prompt"))
    out.prompt = text_of(line, "prompt", "prompt");
  else
    out.prompt = messages_of(line["messages"]);
  if (line.contains("cache_salt")) out.cache_salt = text_of(line, "cache_salt", "cache_salt");
  if (out.cache_salt && out.cache_salt->size() > cache_salt_bytes_max)
    throw line_error("cache_salt has " + std::to_string(out.cache_salt->size()) +
                     " bytes, the limit is " + std::to_string(cache_salt_bytes_max));
  out.add_generation_prompt = false;  // the user turn that follows the prefix differs
  out.decode.max_tokens = 0;
  out.decode.sampling.temperature = 0;
  out.label = "prewarm";
  return out;
}

std::string at_line(std::size_t line, const std::string& what) {
  return "line " + std::to_string(line) + ": " + what;
}

class waiting_sink final : public core::generation_sink {
 public:
  void accepted(std::uint32_t) override {}
  void delta(core::generation_delta) override {}
  void end(core::generation_end how) override {
    const std::lock_guard lock(mutex_);
    how_ = std::move(how);
    over_.notify_all();
  }
  /// None: the stop came first.
  std::optional<core::generation_end> wait(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    over_.wait(lock, stop, [this] { return how_.has_value(); });
    return how_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any over_;  // the kind that a stop wakes as well
  std::optional<core::generation_end> how_;
};

/// None: stopped.
std::optional<core::generation_end> compute(core::generation_engine& engine,
                                            const core::generation_request& request,
                                            const std::stop_token& stop) {
  const auto sink = std::make_shared<waiting_sink>();
  const auto handle = engine.submit(request, sink);
  auto how = sink->wait(stop);
  if (!how) handle->cancel(core::end_reason::shutdown, engine.now());
  return how;
}

/// Distinct whole blocks of all prompts; prompts that can't be encoded or don't fit are problems.
std::uint64_t measure(const core::generation_engine& engine, const prewarm_file& file,
                      std::uint32_t block_size, std::vector<std::string>& problems) {
  core::prefix_index distinct;  // the index itself counts: shared beginnings once, per salt
  core::block_id next = 0;
  for (const auto& [line, request] : file.prompts) {
    try {
      const auto tokens = engine.encode(request);
      if (tokens.empty() || tokens.size() > engine.card().context)
        problems.push_back(at_line(line, "the prompt has " + std::to_string(tokens.size()) +
                                             " tokens, must be 1 to " +
                                             std::to_string(engine.card().context)));
      core::node_id node = 0;
      for (std::size_t i = 0; i + block_size <= tokens.size(); i += block_size) {
        const std::array row{next++};
        node =
            distinct.add({request.cache_salt}, node, std::span(tokens).subspan(i, block_size), row);
      }
    } catch (const std::invalid_argument& e) {
      problems.push_back(at_line(line, e.what()));
    }
  }
  return distinct.size();
}

bool read_file(const std::string& path, std::string& text, std::vector<std::string>& problems) {
  std::ifstream in(path, std::ios::binary);
  std::array<char, 65536> part;
  // In parts, so that a device file or a wrong path to something huge ends at the limit.
  while (in.read(part.data(), part.size()), in.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() <= prewarm_bytes_max) continue;
    problems.push_back("is larger than " + std::to_string(prewarm_bytes_max) + " bytes");
    return false;
  }
  if (in.is_open() && !in.bad()) return true;
  problems.push_back("can't be read: " + std::string(std::strerror(errno)));
  return false;
}

}  // namespace

prewarm_file parse_prewarm(std::string_view text) {
  prewarm_file out;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const auto end = text.find('\n');
    const auto whole = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    const auto first = whole.find_first_not_of(" \t\r");
    if (first == whole.npos || whole[first] == '#') continue;
    try {
      out.prompts.push_back({line, request_of(parse_line(whole))});
    } catch (const line_error& e) {
      out.problems.push_back(at_line(line, e.what()));
    }
  }
  return out;
}

prewarm_report prewarm(core::generation_engine& engine, const std::string& path,
                       std::uint32_t block_size, std::uint32_t pool_blocks, std::stop_token stop) {
  prewarm_report out;
  std::string text;
  if (!read_file(path, text, out.problems)) return out;
  auto file = parse_prewarm(text);
  out.problems = std::move(file.problems);
  if (const auto blocks = measure(engine, file, block_size, out.problems); blocks > pool_blocks)
    out.warning = "the prompts have " + std::to_string(blocks * block_size) +
                  " tokens and the KV pool holds " +
                  std::to_string(std::uint64_t{pool_blocks} * block_size) +
                  ": the first ones will have been evicted at the end";
  if (!out.problems.empty()) return out;
  for (const auto& [line, request] : file.prompts) {
    const auto how = compute(engine, request, stop);
    if (!how) {
      out.interrupted = true;
      return out;
    }
    // max_tokens is 0: a prompt that was computed ends as length, everything else is a failure.
    if (how->reason != core::end_reason::length) {
      out.problems.push_back(
          at_line(line, how->message.empty() ? name_of(how->reason) : how->message));
      return out;
    }
    ++out.prompts;
    const auto whole = std::uint64_t{how->usage.prompt} / block_size * block_size;
    out.tokens += whole - std::min<std::uint64_t>(whole, how->usage.cached);
  }
  return out;
}

}  // namespace troupe
