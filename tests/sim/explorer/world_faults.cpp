// The faults of a world, and time that passes.
#include "tests/sim/explorer/world.hpp"

namespace troupe::core::sim {

void world::do_fault(const choice& c, cell_counts& cells) {
  const std::size_t i = c.who;
  const bool alive = i < clients_.size() && clients_[i].state == life::alive;
  switch (c.which) {
    case fault::disconnect:
      cancel_session(i, end_reason::client_gone);
      break;
    case fault::cancel:
      if (alive && !clients_[i].session.finished())
        cancel_session(i, end_reason::cancelled);
      else  // late, or of an unknown id
        up_of(i < clients_.size() ? i : 0)
            .emplace_back(cancel{id_of(i), end_reason::cancelled, now_});
      break;
    case fault::time_passes:
      on_time(cells);
      break;
    case fault::stall:
      clients_[i].withholds = true;
      break;
    case fault::step_failed:
      do_step(true, std::nullopt);
      break;
    case fault::bad_logits:
      do_step(false, i);
      break;
    case fault::move_failed:
      do_copy(i, false);
      break;
    case fault::corrupt:
      do_mover(true);
      break;
    case fault::crash: {
      // One session serves a group: all of it is gone.
      const auto leader = [this](std::size_t k) { return scene_->clients[k].tail_of.value_or(k); };
      for (std::size_t k = 0; k < clients_.size(); ++k) {
        auto& x = clients_[k];
        if (leader(k) != leader(i) || x.state != life::alive) continue;
        const bool submitted = x.reading.where() == prompt_reading::state::left;
        x.state = life::crashed;
        x.reading.close(places_);  // as its shell does on its way out
        x.down.clear();
        x.outstanding = x.withholds = false;
        if (submitted) up_of(k).emplace_back(down{id_of(k)});  // the scheduler monitors no other
      }
      break;
    }
    case fault::drain:
    case fault::stop: {
      ending_ = true;
      if (c.which == fault::drain) {
        schedule_for_all(core::drain{}, column::drain, cells);
      } else {
        for (auto& x : clients_) x.closed = x.closed || x.admissions > 0;
        schedule_for_all(core::stop{end_reason::shutdown, "over"}, column::stop, cells);
      }
      break;
    }
    case fault::repeat:
      clients_[i].resubmitted = true;
      schedule(submit_of(*scene_, i), column::submit, id_of(i), cells);
      break;
  }
}

void world::on_time(cell_counts& cells) {
  now_ += long_time_us;
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    const auto state = row_of(id_of(i));
    if (state == request_state::gone) continue;
    if (state == request_state::tokenizing) {  // its next turn sees to it
      ++cells[static_cast<int>(state)][static_cast<int>(column::deadline)];
      continue;
    }
    if (scene_->clients[i].deadline) clients_[i].closed = true;
    const bool moves = state == request_state::moving_out || state == request_state::moving_in;
    ++cells[static_cast<int>(state)]
           [static_cast<int>(moves ? column::move_late : column::deadline)];
  }
  effects out;
  machine_.on(tick{}, now_, out);
  perform(out);
}

}  // namespace troupe::core::sim
