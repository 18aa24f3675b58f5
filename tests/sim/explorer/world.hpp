// The real machines (sessions, scheduler, block ledger, move ledger) with a fake device, joined by
// one FIFO channel per directed pair, as the actors are. A value: it is copied for every branch of
// an exploration. A choice delivers one message, ends one operation of the device, or injects one
// fault; after each the rules are checked, and a broken one is thrown as `broken`.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/core/blocks/block_ledger.hpp"
#include "actors/core/blocks/move_ledger.hpp"
#include "actors/core/scheduler_machine.hpp"
#include "actors/core/session/prompt_reading.hpp"
#include "actors/core/session/session_machine.hpp"
#include "tests/sim/explorer/scenario.hpp"

namespace troupe::core::sim {

struct broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct choice {
  enum class kind : std::uint8_t {
    submit,  // the session begins; a prompt of one slice is submitted with it
    turn,    // the pause of one that reads is over
    to_scheduler,
    to_session,
    to_allocator,
    from_allocator,
    to_mover,
    copy_done,
    from_mover,
    step,
    from_executor,
    delivered,
    resume,  // up to here: what happens in a run without faults
    fault,
  };
  kind what = kind::submit;
  sim::fault which = sim::fault::disconnect;  ///< for kind::fault
  std::uint8_t who = 0;                       ///< client, or place in the list of copies
};
std::string text_of(const choice&);

/// Events of the scheduler: the columns of the state x event table in actors/STATES.md.
enum class column : std::uint8_t {
  submit,
  granted,
  denied,
  released,
  moved,
  move_failed,
  move_late,
  step_done,
  step_failed,
  cancel,
  deadline,
  reader_stalled,
  reader_resumed,
  drain,
  stop,
};
inline constexpr int column_count = static_cast<int>(column::stop) + 1;
const char* name_of(column);
using cell_counts = std::array<std::array<std::uint64_t, column_count>, request_state_count>;

/// One visitor of several lambdas.
template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

/// Longer than every deadline and limit of a scenario.
inline constexpr time_us long_time_us = 1'000'000;
/// `i` leads its group, if it has one.
submit submit_of(const scenario&, std::size_t i);

/// First in, first out; empty ones cost nothing to copy, which most are.
template <class T>
struct channel : std::vector<T> {
  T take() {
    T first = std::move(this->front());
    this->erase(this->begin());
    return first;
  }
};

class world {
 public:
  explicit world(const scenario&);

  /// Everything that can happen next, the scenario's faults included.
  std::vector<choice> choices() const;
  /// Throws `broken`. `cells` counts the events of the scheduler by the state they met; `story`,
  /// unless null, gets one line per choice.
  void apply(const choice&, cell_counts& cells, std::vector<std::string>* story = nullptr);
  state_digest digest() const;
  std::uint32_t faults_met() const { return faults_met_; }
  /// To be called when only faults can happen: every request must have ended and every block be
  /// back. Throws `broken`.
  void require_whole() const;

 private:
  struct down {  // the session's actor died
    request_id request;
  };
  using to_scheduler = std::variant<submit, cancel, reader_stalled, reader_resumed, down>;
  using to_session = std::variant<admitted, refused, tokens_out, ended>;
  using to_allocator =
      std::variant<reserve, fork_lease, drop_source, trim, publish, release, audit>;
  using from_allocator = std::variant<granted, denied, released>;
  using to_mover = std::variant<move_out, move_in, drop_parked, audit>;
  using from_executor = std::variant<step_done, step_failed>;

  enum class life : std::uint8_t { not_begun, alive, quit, crashed };
  struct client {
    client(prompt_reading prompt, session_machine machine)
        : reading(std::move(prompt)), session(std::move(machine)) {}
    life state = life::not_begun;
    prompt_reading reading;
    std::uint32_t slices = 0;  // read
    session_machine session;
    channel<to_scheduler> up;
    channel<to_session> down;
    bool outstanding = false;  // a delta waits at the sink
    bool withholds = false;    // the reader confirms nothing
    bool resubmitted = false;
    std::uint8_t finishes = 0, ends = 0, admissions = 0;
    bool closed = false;           // a reason to end it has reached the scheduler
    std::vector<token_id> tokens;  // what the scheduler has sent it
  };
  struct running_copy {
    move_id move;
    bool out = true;
    std::vector<block_id> blocks;
    lease_id parked;
    std::uint32_t first = 0;
    std::vector<std::vector<token_id>> seen;  // content of the blocks when the copy began
  };

  request_id id_of(std::size_t i) const { return request_id{i + 1}; }
  std::size_t index_of(request_id id) const { return static_cast<std::size_t>(id.value - 1); }
  template <class Event>
  void schedule(const Event&, column, request_id about, cell_counts&);
  template <class Event>
  void schedule_for_all(const Event&, column, cell_counts&);
  void perform(effects&);
  void accept(const step_plan&);
  void copy_blocks(const step_plan&);
  token_id token_of(request_id) const;
  void run_session(std::size_t i, session_effects&);
  void follow(std::size_t i, reading_step);
  void cancel_session(std::size_t i, end_reason);
  bool has_turn(const client&) const;
  /// Where the request is: with its session until it is submitted, then with the scheduler.
  request_state row_of(request_id) const;
  void on_time(cell_counts&);
  void do_fault(const choice&, cell_counts&);
  void do_up(std::size_t i, cell_counts&);
  void do_down(std::size_t i);
  void do_allocator();
  void do_mover(bool corrupt);
  void do_copy(std::size_t which, bool ok);
  void do_step(bool fails, std::optional<std::size_t> poisoned);
  void poison_free();
  void check();
  void check_steps_and_moves(const std::vector<block_ledger::census_line>&) const;
  std::vector<token_id> content(block_id) const;
  /// One session serves a whole group, so all it sends goes one way.
  channel<to_scheduler>& up_of(std::size_t i) {
    return clients_[scene_->clients[i].tail_of.value_or(i)].up;
  }
  const client& owner(request_id id) const { return clients_.at(index_of(id)); }
  void note(const std::string& line) const {
    if (story_) story_->push_back(line);
  }

  const scenario* scene_;
  scheduler_machine machine_;
  block_ledger ledger_;
  move_ledger moves_;
  std::vector<client> clients_;
  reading_places places_;
  channel<to_allocator> to_allocator_;
  channel<from_allocator> from_allocator_;
  channel<to_mover> to_mover_;
  channel<moved> from_mover_;
  std::vector<running_copy> copies_;
  std::optional<step_plan> plan_;        // at the executor
  std::optional<from_executor> result_;  // its report, not yet delivered to the scheduler
  std::vector<token_id> memory_;         // one cell per token of the pool; -1: nothing
  std::map<lease_id, std::vector<std::vector<token_id>>> host_;
  std::map<lease_id, std::array<std::uint8_t, 3>>
      leases_;  // open ones: reserves, denials, releases
  time_us now_ = 1;
  std::uint64_t steps_ = 0;
  std::uint32_t faults_met_ = 0;
  std::uint8_t stops_ = 0;
  bool ending_ = false;  // drain or stop was sent
  // Which parts the last choice changed: only those are checked again, or exploration takes too
  // long.
  bool scheduled_ = false, allocated_ = false, moved_ = false, named_ = false;
  std::vector<std::string>* story_ = nullptr;
};

template <class Event>
void world::schedule(const Event& event, column at, request_id about, cell_counts& cells) {
  ++cells[static_cast<int>(row_of(about))][static_cast<int>(at)];
  effects out;
  machine_.on(event, now_, out);
  perform(out);
}

/// An event that may change every request.
template <class Event>
void world::schedule_for_all(const Event& event, column at, cell_counts& cells) {
  for (std::size_t i = 0; i < clients_.size(); ++i)
    ++cells[static_cast<int>(row_of(id_of(i)))][static_cast<int>(at)];
  effects out;
  machine_.on(event, now_, out);
  perform(out);
}

}  // namespace troupe::core::sim
