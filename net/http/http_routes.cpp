#include "net/http/http_routes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "net/http/kv_audit.hpp"
#include "net/http/token_tools.hpp"
#include "net/json/json_writer.hpp"
#include "net/server/auth.hpp"

namespace troupe::net {
namespace {

using answer = std::variant<http_reply, api_request, upgrade, slow_reply>;
struct call {
  const http_request& request;
  route_context& context;
  std::string argument;  ///< what stood for `*`
};

enum class method : std::uint8_t { get, post };
/// `debug`: with the key, and only where --debug-endpoints is set; elsewhere there is no such
/// route.
enum class guard : std::uint8_t { open, key, key_unless_metrics_open, debug };

struct route_entry {
  const char* path;  ///< at most one `*`, which matches one or more characters
  method allowed;
  guard guarded;
  bool generates;
  // Called when guard, method and body type are right, and for generating routes while the server
  // takes requests.
  answer (*run)(const call&);
};

/// A body that cannot be read is answered at once; a request goes on to the engine.
template <class Parsed>
answer reply_or_request(std::variant<Parsed, api_error> parsed) {
  if (auto* e = std::get_if<api_error>(&parsed)) return error_reply(*e);
  return std::move(std::get<Parsed>(parsed));
}

http_reply json_reply(std::string body) {
  return {.status = 200, .headers = {}, .body = std::move(body)};
}

answer chat(const call& c) {
  return reply_or_request(parse_chat(c.request.body, c.context.limits));
}
answer completions(const call& c) {
  return reply_or_request(parse_completions(c.request.body, c.context.limits));
}
answer responses(const call& c) {
  return reply_or_request(parse_responses(c.request.body, c.context.limits));
}

/// Each name that the model is served under is a card of its own.
std::string card_json(const route_context& context, const std::string& name) {
  const auto& card = context.engine.card();
  json_writer out;
  out.open_object().key("id").string(name).key("object").string("model");
  out.key("created").number(card.created).key("owned_by").string("troupe");
  // root, parent and max_model_len are vLLM's; clients learn the context from the last.
  out.key("root").string(name).key("parent").null().key("max_model_len").number(card.context);
  return out.close_object().take();
}

answer models(const call& c) {
  json_writer out;
  out.open_object().key("object").string("list").key("data").open_array();
  for (const auto& name : c.context.limits.models) out.raw(card_json(c.context, name));
  return json_reply(out.close_array().close_object().take());
}

answer model(const call& c) {
  for (const auto& name : c.context.limits.models)
    if (name == c.argument) return json_reply(card_json(c.context, name));
  return error_reply({.status = 404,
                      .message = "The model '" + c.argument + "' does not exist.",
                      .param = "model",
                      .code = "model_not_found"});
}

std::string status_ok() {
  return R"({"status":"ok"})";
}

bool stalled(const core::engine_health& health, double limit_s) {
  return static_cast<double>(health.stalled_us) > limit_s * 1e6;
}

/// With the figures: a probe's log then tells a slow step from a dead device.
http_reply stall_reply(const core::engine_health& health, double limit_s) {
  char since[48];
  std::snprintf(since, sizeof since, "%.1f s, limit %g s",
                static_cast<double>(health.stalled_us) / 1e6, limit_s);
  return error_reply(server_error("engine_stalled",
                                  "No step has retired for " + std::string{since} + ", while " +
                                      std::to_string(health.running) + " requests run and " +
                                      std::to_string(health.waiting) + " wait.",
                                  503));
}

// Health says whether a restart would help, readiness whether to send traffic here: a drain or a
// brief stall makes the server unready and leaves it healthy.
answer health(const call& c) {
  const auto now = c.context.engine.health();
  if (now.failed) return error_reply(server_error("engine_failed", "The engine has failed.", 503));
  if (stalled(now, c.context.config.stall_health_s))
    return stall_reply(now, c.context.config.stall_health_s);
  return json_reply(status_ok());
}

answer ready(const call& c) {
  const auto now = c.context.engine.health();
  if (now.failed) return error_reply(server_error("engine_failed", "The engine has failed.", 503));
  if (c.context.draining || now.draining) return error_reply(shutting_down());
  if (stalled(now, c.context.config.stall_ready_s))
    return stall_reply(now, c.context.config.stall_ready_s);
  return json_reply(status_ok());
}

answer version(const call&) {
  return json_reply(R"({"version":")" TROUPE_VERSION R"("})");
}

answer scrape(const call& c) {
  http_reply reply{.status = 200, .headers = {}, .body = c.context.counters.scrape()};
  // The version of Prometheus' text format; scrapers choose their parser by it.
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return reply;
}

/// The tools share a signature, so the table names each in its row.
template <http_reply (*tool)(std::string_view, const core::generation_engine&, const wire_limits&)>
answer token_route(const call& c) {
  // Copied: the request is gone when the worker has its turn. The context outlives all workers.
  return [body = c.request.body, &context = c.context] {
    return tool(body, context.engine, context.limits);
  };
}
answer tokenizer_route(const call& c) {
  return tokenizer_info(c.context.engine);
}

answer kv_route(const call& c) {
  const auto& target = c.request.target;
  const auto mark = std::min(target.find('?'), target.size());
  return [query = target.substr(std::min(mark + 1, target.size())), &context = c.context] {
    return kv_audit(context.engine.probe(), query);
  };
}
answer freeze_route(const call& c) {
  return freeze(c.context.engine.probe(), c.request.body);
}

answer cancel(const call& c) {
  const auto outcome = c.context.registry.cancel(c.argument, c.context.engine.now());
  if (outcome == cancel_outcome::unknown)
    return error_reply({.status = 404,
                        .message = "No request '" + c.argument + "' is known.",
                        .param = "id",
                        .code = "response_not_found"});
  json_writer out;
  out.open_object().key("id").string(c.argument).key("object").string("request.cancelled");
  out.key("cancelled").boolean(outcome == cancel_outcome::cancelled);
  return json_reply(out.close_object().take());
}

// The first that matches is taken, so a pattern that is more special would have to stand first.
constexpr std::array table{
    route_entry{"/v1/chat/completions", method::post, guard::key, true, chat},
    route_entry{"/v1/completions", method::post, guard::key, true, completions},
    route_entry{"/v1/responses", method::post, guard::key, true, responses},
    route_entry{"/v1/models", method::get, guard::key, false, models},
    route_entry{"/v1/models/*", method::get, guard::key, false, model},
    route_entry{"/v1/requests/*/cancel", method::post, guard::key, false, cancel},
    route_entry{"/tokenize", method::post, guard::key, false, token_route<tokenize>},
    route_entry{"/detokenize", method::post, guard::key, false, token_route<detokenize>},
    route_entry{"/tokenizer_info", method::get, guard::key, false, tokenizer_route},
    route_entry{"/health", method::get, guard::open, false, health},
    route_entry{"/ready", method::get, guard::open, false, ready},
    route_entry{"/version", method::get, guard::open, false, version},
    route_entry{"/metrics", method::get, guard::key_unless_metrics_open, false, scrape},
    route_entry{"/debug/kv", method::get, guard::debug, false, kv_route},
    route_entry{"/debug/freeze", method::post, guard::debug, false, freeze_route},
};

/// The part of `path` that matches `*`; empty for a pattern without one; nothing when it does not
/// match.
std::optional<std::string> match(std::string_view pattern, std::string_view path) {
  const std::size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == path ? std::optional{std::string{}} : std::nullopt;
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  // `<=`: the star stands for at least one character.
  if (path.size() <= before.size() + after.size() || !path.starts_with(before) ||
      !path.ends_with(after))
    return std::nullopt;
  return std::string{path.substr(before.size(), path.size() - before.size() - after.size())};
}

const char* allow_header(method m) {
  return m == method::get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}

http_reply foreign_origin(const http_request& request) {
  return error_reply({.status = 403,
                      .message = "Web pages of '" +
                                 std::string{request.header("Origin").value_or("")} +
                                 "' are not served; --allowed-origins can name them.",
                      .code = "origin_not_allowed"});
}

/// The header names a page wants to send, if they are a list of such names. openai-node sends about
/// ten; the limit keeps a reply from growing with its request.
std::optional<std::string> asked_headers(const http_request& request) {
  constexpr std::size_t bytes_max = 4096;
  const auto asked = request.header("Access-Control-Request-Headers");
  if (!asked || asked->size() > bytes_max) return std::nullopt;
  const auto names = token_list(*asked);
  if (!names || names->empty()) return std::nullopt;
  return fmt::format("{}", fmt::join(*names, ", "));
}

/// The answer to a browser's question whether a page may send its request. A page that is served
/// may send any header: SDKs add their own (`x-stainless-os`, `openai-beta`), and none of them
/// gives a right that the page's origin does not have already.
http_reply preflight(const http_request& request, const route_context& context,
                     const char* allowed) {
  const auto origin = request.header("Origin");
  if (!origin_is_allowed(context.config, request)) return foreign_origin(request);
  http_reply reply{.status = 204, .headers = {{"Allow", allowed}}, .body = ""};
  if (origin) {
    reply.headers.emplace_back("Access-Control-Allow-Methods", allowed);
    reply.headers.emplace_back(
        "Access-Control-Allow-Headers",
        asked_headers(request).value_or(
            "Authorization, Content-Type, X-Request-Id, X-Request-Timeout-Ms"));
    reply.headers.emplace_back("Access-Control-Max-Age", "600");
    // The reply repeats that field, so a cache must not give it to a page with another one.
    reply.headers.emplace_back("Vary", "Access-Control-Request-Headers");
  }
  return reply;
}

/// The same for a missing and a wrong one.
http_reply wrong_key() {
  return error_reply(
      {.status = 401, .message = "The API key is missing or wrong.", .code = "invalid_api_key"});
}

bool key_missing(const call& c, guard guarded, bool websocket) {
  if (guarded == guard::open) return false;
  if (guarded == guard::key_unless_metrics_open && c.context.config.metrics_open) return false;
  return !key_is_valid(c.context.config.api_keys, presented_key(c.request, websocket));
}

/// Without a Content-Type the body is taken for what it must be: many a hand-made client sends
/// none.
bool is_json(const http_request& request) {
  const auto type = request.header("Content-Type");
  if (!type) return true;
  std::string_view media = type->substr(0, type->find(';'));
  while (!media.empty() && media.back() == ' ') media.remove_suffix(1);
  return iequals(media, "application/json");
}

/// Header X-Request-Timeout-Ms sets the total deadline of every choice.
std::optional<api_error> apply_timeout(const http_request& request, api_request& api) {
  const auto header = request.header("X-Request-Timeout-Ms");
  if (!header) return std::nullopt;
  std::uint64_t ms = 0;
  const auto [end, error] = std::from_chars(header->data(), header->data() + header->size(), ms);
  if (error != std::errc{} || end != header->data() + header->size() || ms < 1 || ms > 86'400'000)
    return invalid_value("X-Request-Timeout-Ms",
                         "'X-Request-Timeout-Ms' must be 1 to 86400000 milliseconds.");
  for (auto& prompt : api.prompts) prompt.deadlines.total = ms;
  return std::nullopt;
}

/// What is wrong with a WebSocket handshake (RFC 6455, 4.2.1) that is asked for otherwise. Beast
/// would refuse it with a text of its own instead of the error object.
std::optional<http_reply> handshake_fault(const http_request& request) {
  if (request.http_1_0)
    return error_reply({.status = 400, .message = "A WebSocket needs HTTP/1.1, not HTTP/1.0."});
  if (const auto version = request.header("Sec-WebSocket-Version"); version != "13") {
    auto reply = error_reply(
        {.status = 426,
         .message = version ? fmt::format("Sec-WebSocket-Version is {}, supported is 13.",
                                          version->substr(0, 64))
                            : "Sec-WebSocket-Version is missing, supported is 13."});
    reply.headers.emplace_back("Sec-WebSocket-Version", "13");
    reply.headers.emplace_back("Upgrade", "websocket");
    return reply;
  }
  // 16 bytes in base64; their value means nothing.
  const auto key = request.header("Sec-WebSocket-Key");
  if (!key || key->size() != 24 || !key->ends_with("=="))
    return error_reply({.status = 400, .message = "Sec-WebSocket-Key must be 16 bytes in base64."});
  return std::nullopt;
}

answer websocket(const call& c) {
  if (key_missing(c, guard::key, true)) return wrong_key();
  if (!origin_is_allowed(c.context.config, c.request)) return foreign_origin(c.request);
  if (auto fault = handshake_fault(c.request)) return std::move(*fault);
  if (c.context.draining) return error_reply(shutting_down());
  return upgrade{};
}

answer run(const route_entry& entry, const call& c) {
  const auto& request = c.request;
  if (request.method == "OPTIONS")
    return preflight(request, c.context, allow_header(entry.allowed));
  // The one path on which GET means something else than POST; without the header it is a 405 below.
  if (entry.run == responses && request.method == "GET" && request.is_upgrade())
    return websocket(c);
  // A browser sends a simple POST of any page without a preflight and only hides the reply: the
  // page could not read our answer but would have us compute it.
  if (entry.allowed == method::post && !origin_is_allowed(c.context.config, request))
    return foreign_origin(request);
  if (key_missing(c, entry.guarded, false)) return wrong_key();
  const bool allowed = entry.allowed == method::post
                           ? request.method == "POST"
                           : request.method == "GET" || request.method == "HEAD";
  if (!allowed) {
    auto reply = error_reply({.status = 405,
                              .message = request.method + " is not allowed here.",
                              .code = "method_not_allowed"});
    reply.headers.emplace_back("Allow", allow_header(entry.allowed));
    return reply;
  }
  const auto coding = request.header("Content-Encoding");
  if (coding && !request.body.empty() && !iequals(*coding, "identity"))
    return error_reply({.status = 415,
                        .message = "The Content-Encoding '" + std::string{*coding} +
                                   "' is not supported; send the body as it is.",
                        .code = "unsupported_media_type"});
  if (entry.allowed == method::post && !request.body.empty() && !is_json(request))
    return error_reply({.status = 415,
                        .message = "The Content-Type must be application/json.",
                        .code = "unsupported_media_type"});
  // Everything else is answered while the server drains, the health routes above all.
  if (!entry.generates) return entry.run(c);
  if (c.context.draining) return error_reply(shutting_down());
  answer result = entry.run(c);
  if (auto* api = std::get_if<api_request>(&result))
    if (const auto e = apply_timeout(request, *api)) return error_reply(*e);
  return result;
}

std::optional<std::string> path_of(const http_request& request) {
  auto path = request.path();
  // Base URLs are often written with a slash at their end.
  if (path && path->size() > 1 && path->back() == '/') path->pop_back();
  return path;
}

}  // namespace

// Only what route() itself parses: the text tools parse on their worker.
bool reads_body(const http_request& request) {
  const auto path = path_of(request);
  return path && std::any_of(table.begin(), table.end(), [&](const route_entry& entry) {
           return (entry.generates || entry.run == freeze_route) && match(entry.path, *path);
         });
}

routed route(const http_request& request, route_context& context) {
  auto path = path_of(request);
  if (path) {
    for (const auto& entry : table) {
      // Not even a 401: whoever has no debugging must not see that there is some.
      if (entry.guarded == guard::debug && !context.config.debug_endpoints) continue;
      if (auto argument = match(entry.path, *path))
        return {entry.path, run(entry, call{request, context, std::move(*argument)})};
    }
  }
  // An unknown path below /v1 asks for the key first, so that nobody without one learns the routes.
  const bool guarded = path && path->starts_with("/v1/");
  if (guarded && !key_is_valid(context.config.api_keys, presented_key(request, false)))
    return {"other", wrong_key()};
  return {"other", error_reply({.status = 404,
                                .message = "Unknown URL: " + request.method + " " + request.target,
                                .code = "unknown_url"})};
}

// From the table itself, so that a new row cannot be forgotten.
std::vector<std::string> generating_routes() {
  std::vector<std::string> paths;
  for (const auto& entry : table)
    if (entry.generates) paths.emplace_back(entry.path);
  return paths;
}

}  // namespace troupe::net
