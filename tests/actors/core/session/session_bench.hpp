// A session machine with a client that records: what the tests of the session share.
#pragma once
#include <string>
#include <vector>

#include "actors/core/session/session_machine.hpp"

namespace troupe::core::test {

inline session_options options(std::vector<std::string> stop = {}) {
  session_options o;
  o.request = request_id{7};
  o.stop.stops = std::move(stop);
  return o;
}

struct bench {
  session_machine machine;
  session_effects out;
  std::uint32_t cached_by_tokens = 0;
  explicit bench(session_options o) : machine(std::move(o)) {
    machine.on(admitted{request_id{7}, 3}, out);
  }

  void token(const std::string& text, int id = 5, const std::string& tail = "") {
    decoded_token t;
    t.text = text;
    t.tail = tail;
    t.cached_tokens = cached_by_tokens;
    t.piece.token = id;
    t.piece.bytes = text;
    machine.on_token(t, 100, out);
  }
  void end(end_reason why = end_reason::length, const std::string& tail = "") {
    ended e;
    e.request = request_id{7};
    e.why = why;
    e.prompt_tokens = 3;
    e.cached_tokens = 2;
    machine.on(e, tail, out);
  }
  template <class Effect>
  std::vector<Effect> all() const {
    std::vector<Effect> found;
    for (const auto& e : out)
      if (const auto* x = std::get_if<Effect>(&e)) found.push_back(*x);
    return found;
  }
  std::string text() const {  // everything the client gets, in order
    std::string s;
    for (const auto& e : out) {
      if (const auto* d = std::get_if<session_effect::deliver>(&e)) s += d->delta.text;
      if (const auto* f = std::get_if<session_effect::finish>(&e)) s += f->end.last.text;
    }
    return s;
  }
  std::vector<int> pieces() const {
    std::vector<int> ids;
    const auto add = [&](const generation_delta& d) {
      for (const auto& p : d.tokens) ids.push_back(p.token);
    };
    for (const auto& e : out) {
      if (const auto* d = std::get_if<session_effect::deliver>(&e)) add(d->delta);
      if (const auto* f = std::get_if<session_effect::finish>(&e)) add(f->end.last);
    }
    return ids;
  }
};

}  // namespace troupe::core::test
