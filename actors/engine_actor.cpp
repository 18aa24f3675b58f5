#include "actors/engine_actor.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>
#include <map>
#include <memory>
#include <unordered_map>

#include "actors/fail_stop.hpp"
#include "actors/session/text_requests.hpp"

namespace troupe {
namespace {

/// Hands a session's events over to the engine actor's mailbox.
class mailbox_sink final : public core::generation_sink {
 public:
  mailbox_sink(engine_shell owner, std::uint64_t key) : owner_(std::move(owner)), key_(key) {}
  void accepted(std::uint32_t prompt_tokens) override { pass(prompt_tokens); }
  void delta(core::generation_delta piece) override { pass(std::move(piece)); }
  void end(core::generation_end last) override { pass(std::move(last)); }

 private:
  template <class What>
  void pass(What what) {
    caf::anon_send(owner_, protocol::sink_event{key_, std::move(what)});
  }

  engine_shell owner_;
  std::uint64_t key_;
};

struct host_requests {
  engine_shell::pointer self;
  core::generation_engine* engine;
  text_requests text;
  std::chrono::milliseconds reader_limit;

  struct running {
    std::uint64_t tag = 0;
    protocol::reader_actor reader;
    std::shared_ptr<mailbox_sink> sink;  // dropped: the request ends as client_gone
    std::shared_ptr<core::generation> handle;
  };
  std::unordered_map<std::uint64_t, running> requests{};
  std::unordered_map<core::request_id, std::uint64_t> key_of{};
  std::map<caf::actor_addr, std::size_t> readers{};  // monitored, with the number of their requests
  std::uint64_t last_key = 0;

  void submit(const protocol::submit_request& ask) {
    if (!ask.reader) return;
    const auto key = ++last_key;
    if (readers[ask.reader.address()]++ == 0) self->monitor(ask.reader);
    running one{ask.tag, ask.reader, std::make_shared<mailbox_sink>(engine_shell{self}, key),
                nullptr};
    one.handle = engine->submit(ask.request, one.sink);
    key_of[one.handle->id()] = key;
    requests.emplace(key, std::move(one));
  }

  void cancel(core::request_id id) {
    if (const auto found = key_of.find(id); found != key_of.end())
      requests.at(found->second).handle->cancel(core::end_reason::cancelled, engine->now());
  }

  void on(std::uint64_t key, const protocol::sink_event& event) {
    const auto found = requests.find(key);
    if (found == requests.end()) return;  // its reader is gone
    std::visit([&](const auto& what) { pass_on(key, found->second, what); }, event.what);
  }
  void pass_on(std::uint64_t, const running& to, std::uint32_t prompt_tokens) {
    self->send(to.reader, protocol::request_accepted{to.tag, to.handle->id(), prompt_tokens});
  }
  void pass_on(std::uint64_t key, const running& to, const core::generation_delta& delta) {
    self->request(to.reader, reader_limit, protocol::text_arrived{to.tag, to.handle->id(), delta})
        .then(
            [this, key] {
              if (const auto found = requests.find(key); found != requests.end())
                found->second.handle->delivered();
            },
            [this, key](const caf::error& why) {
              const auto late = requests.find(key);
              if (why != caf::sec::request_timeout || late == requests.end())
                return reader_left(key);
              late->second.handle->cancel(core::end_reason::slow_reader, engine->now());
            });
  }
  void pass_on(std::uint64_t key, const running& to, const core::generation_end& end) {
    self->send(to.reader, protocol::request_ended{to.tag, to.handle->id(), end});
    forget(key);
  }

  caf::typed_response_promise<protocol::prompt_encoded> encode(protocol::encode_prompt& ask) {
    auto answer = self->make_response_promise<protocol::prompt_encoded>();
    const bool first = text.encode(std::move(ask), [answer](protocol::prompt_encoded it) mutable {
      answer.deliver(std::move(it));
    });
    if (first) encode_on();
    return answer;
  }
  /// A message to itself behind each slice: whatever has arrived meanwhile comes first.
  void encode_on() {
    if (text.encode_slice()) self->send(self, protocol::encode_on{});
  }

  void reader_left(std::uint64_t key) {
    const auto found = requests.find(key);
    if (found == requests.end()) return;
    found->second.handle->cancel(core::end_reason::client_gone, engine->now());
    forget(key);
  }

  void forget(std::uint64_t key) {
    const auto found = requests.find(key);
    const auto reader = found->second.reader.address();
    key_of.erase(found->second.handle->id());
    requests.erase(found);
    if (const auto count = readers.find(reader); count != readers.end() && --count->second == 0) {
      self->demonitor(reader);
      readers.erase(count);
    }
  }

  void on_down(const caf::down_msg& down) {
    std::vector<std::uint64_t> left;
    for (const auto& [key, one] : requests)
      if (one.reader.address() == down.source) left.push_back(key);
    for (const auto key : left) reader_left(key);
  }
};

}  // namespace

engine_shell::behavior_type engine_actor(engine_shell::pointer self,
                                         core::generation_engine* engine,
                                         const std::shared_ptr<const gpu::loaded_model>& model,
                                         core::observer* watcher,
                                         std::chrono::milliseconds reader_limit) {
  fail_stop(self, *watcher, "engine actor");
  const auto state = std::make_shared<host_requests>(
      host_requests{self, engine, text_requests(model), reader_limit});
  self->set_down_handler([state](const caf::down_msg& down) { state->on_down(down); });
  return {
      [state](const protocol::submit_request& ask) { state->submit(ask); },
      [state](const protocol::cancel_request& ask) { state->cancel(ask.id); },
      [state](protocol::encode_prompt& ask) { return state->encode(ask); },
      [state](const protocol::decode_tokens& ask) { return state->text.decode(ask); },
      [state](const protocol::sink_event& event) { state->on(event.key, event); },
      [state](const protocol::encode_on&) { state->encode_on(); },
  };
}

}  // namespace troupe
