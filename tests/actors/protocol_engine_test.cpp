// The messages of actors/protocol/engine.hpp as bytes: every field of every message survives CAF's
// binary serialiser, bytes that are cut short or spoilt are errors, and a whole conversation with
// the engine runs over bytes.
#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "actors/embedding/caf_system.hpp"
#include "actors/engine_actor.hpp"
#include "actors/protocol/scheduler.hpp"
#include "tests/actors/embedding/embedding_world.hpp"

using namespace troupe;
using namespace std::chrono_literals;
using test::host_world;
using test::reader_log;

namespace {

struct host_config : caf::actor_system_config {
  host_config() { add_to(*this); }
};

/// With an actor whose handle travels. Serialising a handle keeps its actor in the system's
/// registry until it ends, so it is one the system waits for, and ends first.
struct host_system {
  host_config config;
  caf::actor_system system{config};
  protocol::reader_actor reader =
      system.spawn([](protocol::reader_actor::pointer) -> protocol::reader_actor::behavior_type {
        return {[](const protocol::request_accepted&) {}, [](const protocol::text_arrived&) {},
                [](const protocol::request_ended&) {}};
      });
  ~host_system() {
    caf::anon_send_exit(reader, caf::exit_reason::kill);
    reader = nullptr;
  }
};

using bytes = std::vector<char>;

template <class T>
bytes to_bytes(caf::actor_system& system, T message) {
  bytes out;
  caf::binary_serializer sink(system, out);
  REQUIRE_FALSE(sink(message));
  return out;
}

/// None: the bytes are no such message. Bytes that are left over are an error too.
template <class T>
std::optional<T> from_bytes(caf::actor_system& system, const bytes& in) {
  T message;
  caf::binary_deserializer source(system, in);
  if (source(message) || source.remaining() > 0) return std::nullopt;
  return message;
}

// ---- values without a default in any field

core::generation_request full_request() {
  core::generation_request x;
  x.prompt = std::vector<core::chat_message>{{"user", "one"}, {"assistant", std::string("\0z", 2)}};
  x.parse_special = false;
  x.add_special_tokens = false;
  x.add_generation_prompt = false;
  auto& d = x.decode;
  d.sampling = {
      0.25f, 0.5f, 0.125f, 7, ~std::uint64_t{0}, 1.5f, -0.5f, 0.75f, {{3, -1.0f}, {9, 2}}};
  d.max_tokens = 0;  // a value, not none
  d.min_tokens = 5;
  d.stop_token_ids = {4, 2};
  d.ignore_eos = true;
  d.top_logprobs = 20;
  d.confidence = confidence_stop{2, 0.5f, 9};
  x.stop = {"", "\xf0\x9f\x98\x80"};
  x.include_stop_in_output = true;
  x.boundary = stop_boundary::line;
  x.repetition = repetition_stop{3, 4};
  x.allowed_token_ids = {5, 0};
  x.bad_words = {"bad", " worse"};
  x.skip_special_tokens = false;
  x.echo = true;
  x.priority = -3;
  x.deadlines = {1, 2, ~std::uint64_t{0}};
  x.cache_salt = "";  // a salt, not none
  x.disconnect = on_disconnect::keep_prefix;
  x.label = "chatcmpl-1";
  return x;
}

core::generation_delta full_delta() {
  return {"text",
          {{7, "\xff", -0.5f, {{7, -0.5f}, {8, -1.5f}}},
           {8, "b", -std::numeric_limits<float>::infinity(), {}}},
          true,
          9};
}

core::generation_end full_end() {
  core::generation_end x;
  x.reason = core::end_reason::refused;
  x.why_refused = core::refusal::invalid_token;
  x.message = "no";
  x.stop_string = "";
  x.stop_token = 0;
  x.usage = {1, 2, 3};
  x.times = {1, 2, 3, 4, 5};
  x.last = full_delta();
  return x;
}

template <class T>
std::vector<T> samples(host_system&);
template <>
std::vector<protocol::request_accepted> samples(host_system&) {
  return {{1, {2}, 3}};
}
template <>
std::vector<protocol::text_arrived> samples(host_system&) {
  return {{1, {2}, full_delta()}};
}
template <>
std::vector<protocol::request_ended> samples(host_system&) {
  return {{1, {2}, full_end()}};
}
template <>
std::vector<protocol::cancel_request> samples(host_system&) {
  return {{{~std::uint64_t{0}}}};
}
template <>
std::vector<protocol::encode_prompt> samples(host_system&) {
  auto text = full_request(), tokens = full_request();
  text.prompt = "a string";
  tokens.prompt = std::vector<token_id>{1, -1, 2'000'000'000};
  return {{full_request()}, {text}, {tokens}};
}
template <>
std::vector<protocol::prompt_encoded> samples(host_system&) {
  return {{std::vector<token_id>{5, 6}}, {protocol::text_error{core::refusal::bad_template, "no"}}};
}
template <>
std::vector<protocol::decode_tokens> samples(host_system&) {
  return {{{5, 6}}};
}
template <>
std::vector<protocol::tokens_decoded> samples(host_system&) {
  return {{"text"}, {protocol::text_error{core::refusal::invalid_token, "no"}}};
}
template <>
std::vector<protocol::submit_request> samples(host_system& host) {
  return {{1, full_request(), host.reader}};
}

/// Passes each message on as what its bytes say, as a connection between two processes would.
caf::behavior over_bytes(caf::event_based_actor* self, const caf::actor& target,
                         std::atomic<int>* carried) {
  self->set_default_handler([=](caf::scheduled_actor* here, caf::message_view& view) {
    auto message = view.move_content_to_message();
    bytes on_the_way;
    caf::binary_serializer sink(here->system(), on_the_way);
    REQUIRE_FALSE(sink(message));
    caf::message arrived;
    caf::binary_deserializer source(here->system(), on_the_way);
    REQUIRE_FALSE(source(arrived));
    ++*carried;
    target->enqueue(here->current_sender(), here->current_message_id(), std::move(arrived),
                    here->context());
    return caf::result<caf::message>{caf::delegated<caf::message>{}};
  });
  return {[](caf::unit_t) {}};
}

}  // namespace

TEMPLATE_TEST_CASE("engine protocol: every field of every message survives the serialiser",
                   "[actor]", protocol::request_accepted, protocol::text_arrived,
                   protocol::request_ended, protocol::submit_request, protocol::cancel_request,
                   protocol::encode_prompt, protocol::prompt_encoded, protocol::decode_tokens,
                   protocol::tokens_decoded) {
  host_system host;
  for (const auto& sent : samples<TestType>(host)) {
    CHECK_FALSE(sent == TestType{});
    const auto arrived = from_bytes<TestType>(host.system, to_bytes(host.system, sent));
    REQUIRE(arrived.has_value());
    CHECK(*arrived == sent);
    CHECK(to_bytes(host.system, *arrived) == to_bytes(host.system, sent));
  }
}

TEMPLATE_TEST_CASE("engine protocol: a message that is cut short anywhere is an error", "[actor]",
                   protocol::request_accepted, protocol::text_arrived, protocol::request_ended,
                   protocol::submit_request, protocol::cancel_request, protocol::encode_prompt,
                   protocol::prompt_encoded, protocol::decode_tokens, protocol::tokens_decoded) {
  host_system host;
  for (const auto& sent : samples<TestType>(host)) {
    const auto whole = to_bytes(host.system, sent);
    for (std::size_t kept = 0; kept < whole.size(); ++kept) {
      INFO(kept << " of " << whole.size() << " bytes");
      const bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(kept));
      CHECK_FALSE(from_bytes<TestType>(host.system, part).has_value());
    }
  }
}

TEMPLATE_TEST_CASE(
    "engine protocol: spoilt bytes and sizes without end are never more than an error", "[actor]",
    protocol::request_accepted, protocol::text_arrived, protocol::request_ended,
    protocol::submit_request, protocol::cancel_request, protocol::encode_prompt,
    protocol::prompt_encoded, protocol::decode_tokens, protocol::tokens_decoded) {
  host_system host;
  std::mt19937 random(1);
  std::size_t errors = 0;
  for (const auto& sent : samples<TestType>(host)) {
    const auto whole = to_bytes(host.system, sent);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      // A size is written as 7 bits a byte: nine of these promise 2^63 elements.
      auto endless = whole;
      std::fill_n(endless.begin() + static_cast<std::ptrdiff_t>(at),
                  std::min<std::size_t>(9, whole.size() - at), '\xff');
      auto flipped = whole;
      flipped[at] = static_cast<char>(random());
      for (const auto& spoilt : {endless, flipped}) {
        const auto arrived = from_bytes<TestType>(host.system, spoilt);
        errors += arrived ? 0 : 1;
        // What is accepted is a value like any other.
        if (arrived) CHECK(to_bytes(host.system, *arrived).size() <= spoilt.size());
      }
    }
  }
  // Any bytes are numbers; only what has a size, an enum or an alternative can be wrong.
  if (!std::is_same_v<TestType, protocol::request_accepted> &&
      !std::is_same_v<TestType, protocol::cancel_request>)
    CHECK(errors > 0);
}

TEST_CASE("engine protocol: an enum's value or a variant's place that does not exist is an error",
          "[actor]") {
  host_system host;
  protocol::request_ended ended{0, {}, {}};
  auto in = to_bytes(host.system, ended);
  const auto reason_at = 2 * sizeof(std::uint64_t);  // behind tag and id
  in[reason_at] = static_cast<char>(core::end_reason_count - 1);
  REQUIRE(from_bytes<protocol::request_ended>(host.system, in).has_value());
  in[reason_at] = static_cast<char>(core::end_reason_count);
  CHECK_FALSE(from_bytes<protocol::request_ended>(host.system, in).has_value());
  auto outcome = to_bytes(host.system, protocol::tokens_decoded{"x"});
  outcome[0] = 2;
  CHECK_FALSE(from_bytes<protocol::tokens_decoded>(host.system, outcome).has_value());
}

TEST_CASE("engine protocol: submit, tokens, cancel and end run over bytes", "[actor]") {
  host_system host;
  host_world w;
  w.device->step_time = 300us;
  const auto engine = w.start(host.system);
  std::atomic<int> to_engine{0}, to_reader{0};
  const auto remote =
      host.system.spawn(over_bytes, caf::actor_cast<caf::actor>(actor_of(*engine)), &to_engine);
  const auto far = caf::actor_cast<protocol::engine_actor>(remote);
  reader_log log;
  const auto local = host.system.spawn(test::reader, far, std::vector<test::question>{}, &log);
  const auto back = host.system.spawn(over_bytes, caf::actor_cast<caf::actor>(local), &to_reader);
  const auto reader = caf::actor_cast<protocol::reader_actor>(back);

  auto whole = test::ask_for(1, {40, 41, 42}, 20), long_one = test::ask_for(2, {43}, 400);
  caf::anon_send(far, protocol::submit_request{1, whole.request, reader});
  REQUIRE(log.wait_ends(1));
  CHECK(log.order.front() == 'a');
  CHECK(log.text == w.expected_text({40, 41, 42}, 20));
  CHECK(log.ends[0].reason == core::end_reason::length);
  CHECK(log.ends[0].usage.completion == 20);

  log.change([&] { log.text.clear(); });
  caf::anon_send(far, protocol::submit_request{2, long_one.request, reader});
  REQUIRE(log.wait([&] { return log.text.size() > 2; }));
  caf::anon_send(far, protocol::cancel_request{log.id});
  REQUIRE(log.wait_ends(2));
  CHECK(log.ends[1].reason == core::end_reason::cancelled);
  CHECK(w.expected_text({43}, 400).rfind(log.text, 0) == 0);
  CHECK(log.tags == std::set<std::uint64_t>{1, 2});
  CHECK(to_engine == 3);
  CHECK(to_reader >= 6);
  CHECK(w.watcher.wait_whole());
  for (const auto& actor : {remote, back, caf::actor_cast<caf::actor>(local)})
    caf::anon_send_exit(actor, caf::exit_reason::kill);
}

TEST_CASE("engine protocol: encode and decode are requests with typed errors, over bytes too",
          "[actor]") {
  host_system host;
  host_world w;
  const auto engine = w.start(host.system);
  std::atomic<int> carried{0};
  const auto remote =
      host.system.spawn(over_bytes, caf::actor_cast<caf::actor>(actor_of(*engine)), &carried);
  const auto far =
      GENERATE(true, false) ? caf::actor_cast<protocol::engine_actor>(remote) : actor_of(*engine);
  caf::scoped_actor self{host.system};
  const auto encode = [&](core::generation_request request) {
    protocol::prompt_encoded got;
    self->request(far, 30s, protocol::encode_prompt{std::move(request)})
        .receive([&](const protocol::prompt_encoded& x) { got = x; },
                 [](const caf::error& e) { FAIL(caf::to_string(e)); });
    return got;
  };
  const auto decode = [&](std::vector<token_id> tokens) {
    protocol::tokens_decoded got;
    self->request(far, 30s, protocol::decode_tokens{std::move(tokens)})
        .receive([&](const protocol::tokens_decoded& x) { got = x; },
                 [](const caf::error& e) { FAIL(caf::to_string(e)); });
    return got;
  };
  core::generation_request text;
  for (const auto& prompt : {std::string("a b"), std::string(200'000, 'a')}) {
    text.prompt = prompt;
    const auto tokens = std::get<std::vector<token_id>>(encode(text).outcome);
    CHECK(tokens == engine->encode(text));
    CHECK(std::get<std::string>(decode(tokens).outcome) == engine->decode(tokens));
  }
  text.prompt = std::vector<token_id>{1, 999'999};
  const auto refused = std::get<protocol::text_error>(encode(text).outcome);
  CHECK(refused.why == core::refusal::invalid_token);
  CHECK(refused.message.find("999999") != std::string::npos);
  for (const auto wrong : {-1, 999'999}) {
    const auto error = std::get<protocol::text_error>(decode({1, wrong}).outcome);
    CHECK(error.why == core::refusal::invalid_token);
    CHECK(error.message.find("tokens: token id " + std::to_string(wrong)) == 0);
  }
  caf::anon_send_exit(remote, caf::exit_reason::kill);
}

TEST_CASE("engine protocol: other messages are handled between the slices of a giant prompt",
          "[actor]") {
  caf::actor_system_config config;
  config.add_message_types<caf::id_block::troupe>();
  config.set("scheduler.policy", caf::atom("testing"));
  caf::actor_system system(config);
  system.await_actors_before_shutdown(false);
  auto& coordinator = static_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  host_world w;
  const auto engine = system.spawn<caf::hidden>(engine_actor, nullptr, w.model, &w.watcher, 1000ms);
  std::string order;
  const auto asker = system.spawn<caf::hidden>([&](caf::event_based_actor* self) -> caf::behavior {
    core::generation_request giant;
    giant.prompt = std::string(200'000, 'a');
    const auto door = caf::actor_cast<protocol::engine_actor>(engine);
    const auto failed = [&](const caf::error&) { order += '!'; };
    for (int i = 0; i < 2; ++i)
      self->request(door, 10s, protocol::encode_prompt{giant})
          .then([&](const protocol::prompt_encoded&) { order += 'e'; }, failed);
    self->request(door, 10s, protocol::decode_tokens{{40}})
        .then([&](const protocol::tokens_decoded&) { order += 'd'; }, failed);
    return {[](caf::unit_t) {}};
  });
  int handled = 0;
  while (coordinator.has_job()) coordinator.run_once(), ++handled;
  CHECK(order == "dee");  // asked last, answered first; the prompts one after the other
  CHECK(handled >= 20);   // each in ten slices or more
  caf::anon_send_exit(asker, caf::exit_reason::kill);
  caf::anon_send_exit(caf::actor_cast<caf::actor>(engine), caf::exit_reason::kill);
  coordinator.run();
}
