// One answer of a session, from its submit to its end: the session_machine with what it needs of
// the model (detokenizer, text of tokens), its client's sink, its handle's phase and the record of
// its end. A session has one of these for each choice of its request. Knows no actor: what it wants
// of the scheduler it leaves in `to_scheduler`, for the session to send.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "actors/api/observer.hpp"
#include "actors/core/session/session_machine.hpp"
#include "gpu/model/loaded_model.hpp"

namespace troupe {

/// The part of its life a request is in; its handle reads it from other threads.
using shared_phase = std::shared_ptr<std::atomic<core::life_phase>>;
/// When a client was first seen to leave, 0 before. The cancel that says so may still wait in the
/// session's mailbox when a delta finds no sink.
using shared_time = std::shared_ptr<std::atomic<core::time_us>>;

/// What the choices of all sessions of a runtime share.
struct choice_context {
  std::shared_ptr<const gpu::loaded_model> model;
  core::observer* watcher = nullptr;
  std::uint64_t outbound_bytes_max = 256 << 10;
  bool keep_prefix = false;  ///< for requests that name no on_disconnect
};

/// Whose answer it is and where it goes.
struct choice_client {
  core::request_id id;
  std::shared_ptr<const core::generation_request> request;  ///< all choices have the same
  std::uint64_t seed = 0;                                   ///< this one's, not the request's
  std::weak_ptr<core::generation_sink> sink;
  shared_phase phase;
  shared_time left_at;
};

class session_choice {
 public:
  using message_to_scheduler =
      std::variant<core::cancel, core::reader_stalled, core::reader_resumed>;

  session_choice(choice_context, choice_client);

  /// The scheduler is asked for this choice too: from now on only its `ended` or `refused` ends it.
  void prompt_read(const token_sequence& prompt);
  /// The request for the scheduler, with this choice as the one that computes the prompt.
  core::submit submit(token_sequence prompt, core::time_us received_at) const;
  /// The prompt was never submitted: refused, ended or cancelled while it was read.
  void on_unsubmitted_end(core::end_reason why, core::time_us now);
  void on(const core::admitted&, core::time_us now);
  void on(const core::refused&, core::time_us now);
  void on_started();
  void on(const core::tokens_out&, core::time_us now);
  void on(const core::ended&, core::time_us now);
  void on_delivered(core::time_us now);
  void on_cancel(const core::cancel&, core::time_us now);
  void on_engine_down(core::time_us now);

  /// To be sent, in order, after each call.
  std::vector<message_to_scheduler> take_messages() { return std::exchange(to_scheduler_, {}); }
  /// The scheduler has ended it, or never had it: nothing more comes.
  bool over() const { return over_; }
  core::request_id id() const { return client_.id; }
  std::uint64_t seed() const { return client_.seed; }
  void begun(core::time_us at) { begun_at_ = at; }

  /// The session's actor is dead, for whatever reason: the end is recorded and sent to the client
  /// once all the same. Called last, from whichever thread ended the actor.
  void died(bool by_shutdown, const std::string& why, core::time_us now);

 private:
  template <class Event>
  void run(core::time_us now, Event&&);
  template <class Deliver>
  void to_sink(core::time_us now, Deliver&&);
  void perform(core::session_effect::accepted&, core::time_us now);
  void perform(core::session_effect::deliver&, core::time_us now);
  void perform(core::session_effect::finish&, core::time_us now);
  void perform(core::session_effect::cancel_request&, core::time_us now);
  void perform(core::session_effect::stalled&, core::time_us now);
  void perform(core::session_effect::resumed&, core::time_us now);
  void perform(core::session_effect::quit&, core::time_us now);
  void echo_when_scored();
  core::token_piece to_piece(const scored_token&) const;
  core::request_times own_times(core::time_us now) const;
  void record_end();

  choice_context context_;
  choice_client client_;
  core::session_machine machine_;
  gpu::detokenizer text_;
  token_sequence prompt_;  // for the echo
  std::vector<scored_token> prompt_scores_;
  bool echo_pending_ = false;
  core::session_effects effects_;
  std::vector<message_to_scheduler> to_scheduler_;
  core::request_record record_;
  core::time_us begun_at_ = 0, first_token_at_ = 0;
  bool end_delivered_ = false, recorded_ = false, over_ = false;
};

}  // namespace troupe
