// A session that reads a long prompt, under CAF's deterministic coordinator: one job at a time,
// time stands still until a timer is asked for.
#include "actors/session/session_actor.hpp"

#include <array>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <catch2/catch.hpp>

#include "actors/clock.hpp"
#include "actors/protocol/engine.hpp"
#include "tests/support/recording.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe;

namespace {

/// What a scheduler that never answers has received.
struct received {
  std::vector<core::submit> submits;
  int cancels = 0, ticks = 0;
  core::time_us cancel_seen_at = 0;
};

caf::behavior scheduler_stub(caf::event_based_actor*, received* heard) {
  return {
      [heard](const core::submit& x, const protocol::session_actor&) {
        heard->submits.push_back(x);
      },
      [heard](const core::cancel& x) {
        ++heard->cancels;
        heard->cancel_seen_at = x.seen_at;
      },
      [heard](const core::tick&) { ++heard->ticks; },
  };
}

struct settings : caf::actor_system_config {
  settings() {
    add_message_types<caf::id_block::troupe>();
    set("scheduler.policy", caf::atom("testing"));
  }
};

/// A session's surroundings on the testing scheduler; the clients are the tests' own.
struct session_world {
  session_world()
      : coordinator(static_cast<caf::scheduler::test_coordinator&>(system.scheduler())) {
    system.await_actors_before_shutdown(false);
    coordinator.clock().current_time += std::chrono::hours(1);
    scheduler = system.spawn<caf::hidden>(scheduler_stub, &heard);
    context.choice.model = model;
    context.scheduler = caf::actor_cast<protocol::scheduler_actor>(scheduler);
    context.choice.watcher = &watcher;
  }
  ~session_world() {
    caf::anon_send_exit(caf::actor_cast<caf::actor>(session), caf::exit_reason::kill);
    caf::anon_send_exit(scheduler, caf::exit_reason::kill);
    coordinator.run();
    coordinator.trigger_timeouts();  // they hold handles
    coordinator.run();
  }
  void begin(const std::vector<choice_client>& clients) {
    session = system.spawn<caf::hidden>(session_actor, context, clients);
    caf::anon_send(session, protocol::begin{});
    coordinator.run();
  }
  template <class Message>
  void send(Message message) {
    caf::anon_send(session, std::move(message));
    coordinator.run();
  }
  core::time_us now() const { return to_time_us(coordinator.clock().now()); }

  settings config;
  caf::actor_system system{config};
  caf::scheduler::test_coordinator& coordinator;
  received heard;
  caf::actor scheduler;
  test::temporary_file file{test::tiny_llama_bytes()};
  std::shared_ptr<const gpu::loaded_model> model = gpu::load_model(file.path());
  test::recording_observer watcher;
  session_context context;
  protocol::session_actor session;
};

struct one_session : session_world {
  explicit one_session(core::generation_request request, std::uint32_t context_tokens = 1'000'000,
                       std::uint32_t readers = 0) {
    context.model_context = context_tokens;
    context.places->with([&](core::reading_places& places) { places.taken = readers; });
    begin({{core::request_id{1}, std::make_shared<core::generation_request>(std::move(request)), 0,
            sink, phase, left_at}});
  }

  /// Others have their turn, then the next slice.
  void next_slice() {
    REQUIRE(coordinator.has_pending_timeout());
    coordinator.trigger_timeout();
    coordinator.run();
  }
  std::uint32_t readers() const {
    return context.places->with([](const core::reading_places& places) { return places.taken; });
  }
  bool reads() const { return readers() != 0; }

  std::shared_ptr<test::recording_sink> sink = std::make_shared<test::recording_sink>();
  shared_phase phase = std::make_shared<std::atomic<core::life_phase>>(core::life_phase::queued);
  shared_time left_at = std::make_shared<std::atomic<core::time_us>>(0);
};

core::generation_request giant(std::size_t letters = 200'000) {
  core::generation_request request;
  request.prompt = std::string(letters, 'a');
  request.decode.max_tokens = 4;
  return request;
}

/// The request ended in the session, and the scheduler never heard of it.
void require_gone(one_session& s, core::end_reason why) {
  REQUIRE(s.sink->ends == 1);
  CHECK(s.sink->order == "e");
  CHECK(s.sink->finish.reason == why);
  REQUIRE(s.watcher.ends.size() == 1);
  CHECK(s.watcher.ends[0].reason == why);
  CHECK_FALSE(s.reads());
  while (s.coordinator.has_pending_timeout()) s.next_slice();
  CHECK(s.heard.submits.empty());
  CHECK(s.heard.cancels == 0);
  CHECK(s.sink->ends == 1);
}

}  // namespace

TEST_CASE("session: a short prompt is submitted at once, without a timer", "[actor]") {
  one_session s(giant(2000));
  REQUIRE(s.heard.submits.size() == 1);
  CHECK(s.heard.submits[0].prompt == s.model->vocabulary.encode(std::string(2000, 'a'), true));
  CHECK_FALSE(s.coordinator.has_pending_timeout());
  CHECK_FALSE(s.reads());
}

TEST_CASE("session: between the slices of a giant prompt the scheduler has its turn", "[actor]") {
  auto request = giant();
  request.deadlines.total = 60'000;
  one_session s(std::move(request));
  int slices = 1;
  for (; s.heard.submits.empty(); ++slices) {
    CHECK(s.reads());
    caf::anon_send(s.scheduler, core::tick{});
    s.coordinator.run();
    REQUIRE(s.heard.ticks == slices);  // handled although the prompt is not read
    s.next_slice();
  }
  CHECK(slices >= 10);
  CHECK_FALSE(s.reads());
  const auto& submit = s.heard.submits[0];
  CHECK(submit.prompt == s.model->vocabulary.encode(std::string(200'000, 'a'), true));
  // A pause of 1 ms after each slice but the last: the deadlines go on counting from the beginning.
  CHECK(submit.deadlines.total == 60'000);
  CHECK(s.now() - submit.received_at.value() == 1000 * (slices - 1));
  caf::anon_send(s.session,
                 core::cancel{core::request_id{1}, core::end_reason::cancelled, s.now()});
  s.coordinator.run();
  CHECK(s.heard.cancels == 1);  // from here on it is the scheduler's
  CHECK(s.sink->ends == 0);
}

TEST_CASE("session: a cancel between two slices ends the request at once", "[actor]") {
  const auto why = GENERATE(core::end_reason::cancelled, core::end_reason::client_gone,
                            core::end_reason::shutdown);
  one_session s(giant());
  s.next_slice();
  s.next_slice();
  REQUIRE(s.reads());
  if (why == core::end_reason::shutdown)
    caf::anon_send_exit(caf::actor_cast<caf::actor>(s.session), caf::exit_reason::user_shutdown);
  else
    caf::anon_send(s.session, core::cancel{core::request_id{1}, why, s.now()});
  s.coordinator.run();
  require_gone(s, why);
}

TEST_CASE("session: only a few giant prompts are read at a time, the others wait for their turn",
          "[actor]") {
  one_session s(giant(), 1'000'000, 4);
  for (int i = 0; i < 50; ++i) s.next_slice();
  CHECK(s.heard.submits.empty());
  CHECK(s.readers() == 4);
  s.context.places->with([](core::reading_places& places) { --places.taken; });
  s.next_slice();
  CHECK(s.readers() == 4);
  for (int i = 0; i < 50 && s.heard.submits.empty(); ++i) s.next_slice();
  CHECK(s.heard.submits.size() == 1);
  CHECK(s.readers() == 3);
}

TEST_CASE("session: a deadline that passes while the prompt is read ends the request", "[actor]") {
  auto request = giant();
  const auto which = GENERATE(0, 1, 2);
  auto& deadlines = request.deadlines;
  (which == 0 ? deadlines.queue : which == 1 ? deadlines.first_token : deadlines.total) = 3;
  one_session s(std::move(request));
  for (int i = 0; i < 3; ++i) {
    CHECK(s.sink->ends == 0);
    s.next_slice();
  }
  require_gone(s, which == 0   ? core::end_reason::queue_timeout
                  : which == 1 ? core::end_reason::first_token_timeout
                               : core::end_reason::total_timeout);
}

TEST_CASE("session: the scheduler's death ends a session that still reads", "[actor]") {
  one_session s(giant());
  caf::anon_send_exit(s.scheduler, caf::exit_reason::kill);
  s.coordinator.run();
  require_gone(s, core::end_reason::engine_failed);
}

TEST_CASE(
    "session: a prompt that can't fit is refused after its first slice, by a count that is true",
    "[actor]") {
  one_session s(giant(), 8192);
  require_gone(s, core::end_reason::refused);
  CHECK(s.sink->finish.why_refused == core::refusal::context_length);
  // No token of the vocabulary is longer than the 13 bytes of <|endoftext|>.
  CHECK(s.sink->finish.message ==
        "This model's maximum context length is 8192 tokens, however the prompt has at least 15385 "
        "tokens");
}

TEST_CASE(
    "session: a chat that can't fit is refused by its bytes or its messages, before the template "
    "sees it",
    "[actor]") {
  core::generation_request request;
  std::vector<core::chat_message> messages;
  SECTION("bytes") {
    messages = {{"user", std::string(100'000, 'a')}, {"assistant", std::string(100'000, 'a')}};
  }
  SECTION("messages") {
    messages.assign(15385, {"user", ""});
  }
  request.prompt = std::move(messages);
  one_session s(std::move(request), 8192);
  require_gone(s, core::end_reason::refused);
  CHECK(s.sink->finish.message ==
        "This model's maximum context length is 8192 tokens, however the prompt has at least 15385 "
        "tokens");
}

TEST_CASE("session: a prompt that proves too long while it is read is refused then", "[actor]") {
  std::string text;  // 25,000 tokens; its bytes alone would fit
  for (int i = 0; i < 25'000; ++i) text += " the";
  core::generation_request request;
  request.prompt = text;
  one_session s(std::move(request), 8192);
  int slices = 1;
  for (; s.sink->ends == 0; ++slices) s.next_slice();
  CHECK(slices >= 2);
  require_gone(s, core::end_reason::refused);
  CHECK(s.sink->finish.why_refused == core::refusal::context_length);
}

TEST_CASE(
    "session: a client that left is reported with the time it was seen to leave, not with that of "
    "the next token",
    "[actor]") {
  one_session s(giant(3));
  REQUIRE(s.heard.submits.size() == 1);
  const auto left = s.now();
  SECTION("at the time its connection gives") {
    *s.left_at = left;
  }
  SECTION("without a known time") {}
  const bool known = *s.left_at != 0;
  s.sink.reset();
  s.coordinator.advance_time(std::chrono::seconds(9));
  core::tokens_out token;
  token.request = core::request_id{1};
  token.token = scored_token{40, 0.0f, {}};
  caf::anon_send(s.session, token);  // before the cancel that the connection has sent
  s.coordinator.run();
  REQUIRE(s.heard.cancels == 1);
  CHECK(s.heard.cancel_seen_at == (known ? left : s.now()));
  CHECK(s.now() - left == 9'000'000);
}

namespace {

/// Three choices of one request, and what the scheduler hears of them.
struct three_choices : session_world {
  explicit three_choices(core::generation_request request) {
    const auto shared = std::make_shared<core::generation_request>(std::move(request));
    std::vector<choice_client> clients;
    for (std::uint64_t i = 0; i < 3; ++i)
      clients.push_back({core::request_id{1 + i}, shared, 50 + i, sinks[i],
                         std::make_shared<std::atomic<core::life_phase>>(), nullptr});
    begin(clients);
  }

  std::array<std::shared_ptr<test::recording_sink>, 3> sinks{
      std::make_shared<test::recording_sink>(), std::make_shared<test::recording_sink>(),
      std::make_shared<test::recording_sink>()};
};

}  // namespace

TEST_CASE("session: several choices read their prompt once and are submitted as one group",
          "[actor]") {
  three_choices s(giant(2000));
  REQUIRE(s.heard.submits.size() == 1);
  const auto& group = s.heard.submits[0];
  CHECK(group.request == core::request_id{1});
  CHECK(group.decode.sampling.seed == 50);
  CHECK(group.tails ==
        std::vector<core::tail_of>{{core::request_id{2}, 51}, {core::request_id{3}, 52}});

  // Each has its own events and its own end; the actor stays for the last of them.
  for (std::uint64_t id = 1; id <= 3; ++id) s.send(core::admitted{core::request_id{id}, 7});
  core::tokens_out token{core::request_id{2}, {}, scored_token{40, 0, {}}, false, 0};
  s.send(token);
  CHECK(s.sinks[0]->order == "a");
  CHECK(s.sinks[1]->order == "ad");
  CHECK(s.sinks[2]->order == "a");
  s.send(core::cancel{core::request_id{1}, core::end_reason::cancelled, 0});
  CHECK(s.heard.cancels == 1);
  for (const std::uint64_t id : {1, 3, 2}) {
    core::ended end;
    end.request = core::request_id{id};
    end.why = id == 1 ? core::end_reason::cancelled : core::end_reason::length;
    end.completion_tokens = id == 2 ? 1 : 0;
    s.send(end);
  }
  for (const auto& sink : s.sinks) CHECK(sink->ends == 1);
  CHECK(s.sinks[0]->finish.reason == core::end_reason::cancelled);
  CHECK(s.sinks[1]->finish.reason == core::end_reason::length);
  CHECK(s.watcher.ends.size() == 3);
}

TEST_CASE("session: a choice cancelled while the prompt is read is left out of the group",
          "[actor]") {
  three_choices s(giant());
  REQUIRE(s.heard.submits.empty());
  s.send(core::cancel{core::request_id{1}, core::end_reason::cancelled, 0});
  CHECK(s.sinks[0]->ends == 1);
  CHECK(s.sinks[0]->finish.reason == core::end_reason::cancelled);
  while (s.heard.submits.empty() && s.coordinator.has_pending_timeout()) {
    s.coordinator.trigger_timeout();
    s.coordinator.run();
  }
  REQUIRE(s.heard.submits.size() == 1);
  CHECK(s.heard.submits[0].request == core::request_id{2});
  CHECK(s.heard.submits[0].tails.size() == 1);
  CHECK(s.heard.cancels == 0);
  CHECK(s.sinks[0]->ends == 1);
}

TEST_CASE("session: when every choice is cancelled the prompt is read no further", "[actor]") {
  three_choices s(giant());
  for (const std::uint64_t id : {2, 1, 3})
    s.send(core::cancel{core::request_id{id}, core::end_reason::client_gone, 0});
  for (const auto& sink : s.sinks) {
    CHECK(sink->ends == 1);
    CHECK(sink->finish.reason == core::end_reason::client_gone);
  }
  while (s.coordinator.has_pending_timeout()) {
    s.coordinator.trigger_timeout();
    s.coordinator.run();
  }
  CHECK(s.heard.submits.empty());
  CHECK(s.watcher.ends.size() == 3);
}
