// The runtime inside a host's actor system: typed messages, runtime and host ending in every order,
// and the host's own actors unharmed.
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/atom.hpp>
#include <caf/response_promise.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <catch2/catch.hpp>

#include "actors/api/kv_audit.hpp"
#include "actors/embedding/caf_system.hpp"
#include "actors/protocol/scheduler.hpp"
#include "tests/actors/embedding/embedding_world.hpp"

namespace host {
struct ping {
  int value = 0;
};
}  // namespace host

// A host's own block of type ids, beginning where CAF suggests.
CAF_BEGIN_TYPE_ID_BLOCK(host_types, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(host_types, (host::ping))
CAF_END_TYPE_ID_BLOCK(host_types)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(host::ping)

using namespace troupe;
using namespace std::chrono_literals;
using test::ask_for;
using test::host_world;
using test::reader_log;

namespace {

struct host_config : caf::actor_system_config {
  explicit host_config(const char* policy = nullptr) {
    add_message_types<caf::id_block::host_types>();
    add_to(*this);
    if (policy) set("scheduler.policy", caf::atom_from_string(std::string(policy)));
  }
};

using ping_actor = caf::typed_actor<caf::replies_to<host::ping>::with<int>>;

ping_actor::behavior_type pinged() {
  return {[](const host::ping& it) { return it.value + 1; }};
}

/// Does the host's own actor still answer?
bool answers(caf::actor_system& system, const ping_actor& one) {
  bool right = false;
  caf::scoped_actor self{system};
  self->request(one, 5s, host::ping{41})
      .receive([&](int value) { right = value == 42; }, [](const caf::error&) {});
  return right;
}

}  // namespace

TEST_CASE("embedding: a host's type ids, from CAF's first custom one, do not overlap Troupe's",
          "[actor]") {
  STATIC_REQUIRE(caf::id_block::host_types::begin == caf::first_custom_type_id);
  STATIC_REQUIRE(caf::id_block::troupe::begin >= 40000);
  STATIC_REQUIRE(caf::id_block::troupe::end > caf::id_block::troupe::begin);
  host_config config;
  CHECK(config.type_names_by_rtti.contains(typeid(host::ping)));
  CHECK(config.type_names_by_rtti.contains(typeid(core::step_plan)));
  CHECK(config.type_names_by_rtti.contains(typeid(protocol::sink_event)));
}

TEST_CASE("embedding: a system made without add_to is refused with what to call", "[actor]") {
  caf::actor_system_config bare;
  caf::actor_system system(bare);
  host_world w;
  CHECK_THROWS_WITH(w.start(system),
                    Catch::Contains("troupe::add_to(config)") && Catch::Contains("message types"));
}

TEST_CASE("embedding: the testing policy is refused by its name", "[actor]") {
  host_config config("testing");
  caf::actor_system system(config);
  host_world w;
  CHECK_THROWS_WITH(w.start(system), Catch::Contains("'testing'") && Catch::Contains("sharing"));
}

TEST_CASE("embedding: answers come as messages under sharing and under stealing", "[actor]") {
  host_config config(GENERATE(as<const char*>{}, nullptr, "stealing"));
  caf::actor_system system(config);
  host_world w;
  const auto engine = w.start(system);
  reader_log log;
  system.spawn(test::reader, actor_of(*engine), std::vector{ask_for(7, {40, 41, 42}, 20)}, &log);
  REQUIRE(log.wait_ends(1));
  CHECK(log.order.front() == 'a');
  CHECK(log.order.back() == 'e');
  CHECK(log.tags == std::set<std::uint64_t>{7});
  CHECK(log.text == w.expected_text({40, 41, 42}, 20));
  CHECK(log.ends.front().reason == core::end_reason::length);
  CHECK(w.watcher.wait_whole());
  CHECK(w.watcher.violations.empty());
}

TEST_CASE(
    "embedding: two runtimes share a system, and the end of one leaves the other and the host",
    "[actor]") {
  host_config config;
  caf::actor_system system(config);
  const auto ours = system.spawn(pinged);
  host_world one, two;
  auto first = one.start(system);
  const auto second = two.start(system);
  reader_log from_first, from_second;
  one.device->step_time = two.device->step_time = 300us;
  system.spawn(test::reader, actor_of(*first), std::vector{ask_for(1, {40}, 400)}, &from_first);
  system.spawn(test::reader, actor_of(*second), std::vector{ask_for(2, {41}, 60)}, &from_second);
  REQUIRE(from_first.wait([&] { return from_first.text.size() > 2; }));
  first.reset();
  REQUIRE(from_first.wait_ends(1));  // the engine actor ends last, so that it can forward the end
  CHECK(from_first.ends.front().reason == core::end_reason::shutdown);
  REQUIRE(from_second.wait_ends(1));
  CHECK(from_second.text == two.expected_text({41}, 60));
  CHECK(answers(system, ours));
  CHECK(two.watcher.wait_whole());
  CHECK(one.watcher.wait_whole());
}

TEST_CASE("embedding: the crash of an engine actor is reported once, and the host's actors live on",
          "[actor]") {
  const auto role = GENERATE(core::engine_part::scheduler, core::engine_part::allocator,
                             core::engine_part::executor);
  host_config config;
  caf::actor_system system(config);
  const auto ours = system.spawn(pinged);
  host_world w;
  w.device->step_time = 300us;
  auto engine = w.start(system);
  reader_log log;
  system.spawn(test::reader, actor_of(*engine), std::vector{ask_for(1, {40}, 400)}, &log);
  REQUIRE(log.wait([&] { return log.text.size() > 2; }));
  engine->probe()->crash(role);
  REQUIRE(log.wait_ends(1));
  CHECK(log.ends.front().reason == core::end_reason::engine_failed);
  REQUIRE(w.watcher.wait([&] { return !w.fatal.empty(); }));
  CHECK(answers(system, ours));
  engine.reset();
  CHECK(answers(system, ours));
  CHECK(w.fatal.size() == 1);
  host_world again;  // the same system serves a new runtime
  const auto next = again.start(system);
  reader_log after;
  system.spawn(test::reader, actor_of(*next), std::vector{ask_for(1, {40}, 5)}, &after);
  REQUIRE(after.wait_ends(1));
  CHECK(after.ends.front().reason == core::end_reason::length);
}

TEST_CASE("embedding: the death of the reader is a client that left, and its blocks come back",
          "[actor]") {
  host_config config;
  caf::actor_system system(config);
  host_world w;
  w.device->step_time = 300us;
  const auto engine = w.start(system);
  reader_log log, neighbour;
  const auto reader = system.spawn(test::reader, actor_of(*engine),
                                   std::vector{ask_for(1, {40}, 400), ask_for(2, {41}, 400)}, &log);
  system.spawn(test::reader, actor_of(*engine), std::vector{ask_for(3, {42}, 80)}, &neighbour);
  REQUIRE(log.wait([&] { return log.text.size() > 4; }));
  caf::anon_send_exit(reader, caf::exit_reason::kill);
  REQUIRE(w.watcher.wait([&] { return w.watcher.ends.size() >= 2; }));
  REQUIRE(neighbour.wait_ends(1));
  CHECK(neighbour.text == w.expected_text({42}, 80));
  REQUIRE(w.watcher.wait([&] { return w.watcher.ends.size() == 3; }));
  CHECK(std::count_if(w.watcher.ends.begin(), w.watcher.ends.end(), [](const auto& record) {
          return record.reason == core::end_reason::client_gone;
        }) == 2);
  CHECK(w.watcher.wait_whole());
}

TEST_CASE(
    "embedding: a host cancels by id, and cancels of ended or unknown requests have no effect",
    "[actor]") {
  host_config config;
  caf::actor_system system(config);
  host_world w;
  w.device->step_time = 300us;
  const auto engine = w.start(system);
  const auto engine_actor = actor_of(*engine);
  CHECK(engine_actor == actor_of(*engine));
  reader_log log;
  system.spawn(test::reader, engine_actor, std::vector{ask_for(1, {40}, 400)}, &log);
  REQUIRE(log.wait([&] { return log.text.size() > 2; }));
  for (int i = 0; i < 2; ++i) caf::anon_send(engine_actor, protocol::cancel_request{log.id});
  caf::anon_send(engine_actor, protocol::cancel_request{core::request_id{999}});
  REQUIRE(log.wait_ends(1));
  CHECK(log.ends.front().reason == core::end_reason::cancelled);
  CHECK(w.watcher.wait_whole());
  caf::anon_send(engine_actor, protocol::cancel_request{log.id});
  reader_log next;
  system.spawn(test::reader, engine_actor, std::vector{ask_for(1, {40}, 5)}, &next);
  REQUIRE(next.wait_ends(1));
  CHECK(next.ends.front().reason == core::end_reason::length);
}

TEST_CASE("embedding: a request that is refused ends by name without having been accepted",
          "[actor]") {
  host_config config;
  caf::actor_system system(config);
  host_world w;
  const auto engine = w.start(system);
  reader_log log;
  system.spawn(test::reader, actor_of(*engine), std::vector{ask_for(1, {40, 999999}, 5)}, &log);
  REQUIRE(log.wait_ends(1));
  CHECK(log.order == "e");
  CHECK(log.ends.front().why_refused == core::refusal::invalid_token);
}

TEST_CASE(
    "embedding: a reader that holds its answer back has one text outstanding and ends as "
    "slow_reader",
    "[actor]") {
  host_config config;
  caf::actor_system system(config);
  runtime_config settings;
  settings.client_send_timeout_s = 0.2;
  host_world w(settings);
  w.device->step_time = 1ms;
  const auto engine = w.start(system);
  reader_log log;
  const auto reader =
      system.spawn(test::holding_reader, actor_of(*engine), ask_for(1, {40}, 450), &log);
  REQUIRE(log.wait_ends(1));
  CHECK(log.order == "ade");
  CHECK(log.ends.front().reason == core::end_reason::slow_reader);
  CHECK(w.watcher.wait_whole());
  caf::anon_send_exit(reader, caf::exit_reason::user_shutdown);
}

TEST_CASE("embedding: a system that shuts down first ends our requests by name and does not hang",
          "[actor]") {
  const char* policy = GENERATE(as<const char*>{}, "sharing", "stealing");
  host_world w;
  w.device->step_time = 1ms;
  std::unique_ptr<runtime> engine;
  auto sink = std::make_shared<test::recording_sink>();
  std::shared_ptr<core::generation> handle;
  {
    host_config config(policy);
    caf::actor_system system(config);
    engine = w.start(system);
    actor_of(*engine);
    handle = engine->submit(ask_for(1, {40}, 450).request, sink);
    sink->credit = handle;
    REQUIRE(w.device->wait_started(3));
  }
  REQUIRE(sink->wait_end());
  CHECK(sink->ends == 1);
  CHECK((sink->finish.reason == core::end_reason::shutdown ||
         sink->finish.reason == core::end_reason::engine_failed));
  CHECK(w.fatal.empty());
  CHECK(engine->health().failed);
  CHECK(!actor_of(*engine));
  handle->delivered();
  handle->cancel(core::end_reason::cancelled, engine->now());
  const auto late = std::make_shared<test::recording_sink>();
  engine->submit(ask_for(2, {40}, 5).request, late);
  CHECK(late->ends == 1);
  CHECK(late->finish.reason == core::end_reason::shutdown);
  engine->drain();
  engine.reset();
}

TEST_CASE("embedding: host and runtime end in every order, idle or at work", "[actor]") {
  const bool busy = GENERATE(false, true);
  const int order = GENERATE(0, 1, 2, 3);
  host_world w;
  w.device->step_time = 500us;
  reader_log log;
  auto config = std::make_unique<host_config>();
  auto system = std::make_unique<caf::actor_system>(*config);
  auto engine = w.start(*system);
  caf::actor reader;
  if (busy) {
    reader = caf::actor_cast<caf::actor>(
        system->spawn(test::reader, actor_of(*engine), std::vector{ask_for(1, {40}, 450)}, &log));
    REQUIRE(log.wait([&] { return log.text.size() > 2; }));
  }
  if (order == 1) engine->stop(core::end_reason::shutdown);
  if (order == 2 && reader) caf::anon_send_exit(reader, caf::exit_reason::kill);
  if (order == 3) engine->probe()->crash(core::engine_part::executor);
  reader = {};
  if (order == 0 || order == 3) engine.reset();
  if (busy && order != 2) REQUIRE(log.wait_ends(1));
  system.reset();
  engine.reset();
  CHECK(w.device.use_count() == 1);  // no actor of the runtime is left
}
