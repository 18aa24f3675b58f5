#include "actors/core/session/session_machine.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::core {

namespace {

constexpr std::uint64_t everything = std::numeric_limits<std::uint64_t>::max();

// Bytes that a waiting piece counts for against outbound_bytes_max; 48 stands for the object
// itself.
std::uint64_t cost_of(const token_piece& p) {
  return 48 + p.bytes.size() + p.top.size() * sizeof(p.top[0]);
}

void append(generation_delta& to, generation_delta from) {
  to.text += from.text;
  to.tokens.insert(to.tokens.end(), std::make_move_iterator(from.tokens.begin()),
                   std::make_move_iterator(from.tokens.end()));
}

bool empty(const generation_delta& d) {
  return d.text.empty() && d.tokens.empty();
}

}  // namespace

session_machine::session_machine(session_options options)
    : options_(std::move(options)), matcher_(options_.stop) {
  if (const auto& r = options_.repetition; r && (r->ngram < 1 || r->times < 2))
    options_.repetition.reset();  // nothing repeats
  prompt_.prompt = true;
}

void session_machine::on(const admitted& m, session_effects& out) {
  prompt_tokens_ = m.prompt_tokens;
  if (!finished_ && !gone_) out.emplace_back(session_effect::accepted{m.prompt_tokens});
}

void session_machine::on(const refused& m, session_effects& out) {
  if (!finished_) {
    generation_end end;
    end.reason = end_reason::refused;
    end.why_refused = m.why;
    end.message = m.message;
    finish(std::move(end), out);
  }
  quit(out);
}

void session_machine::on_prompt(const std::string& text, std::vector<token_piece> pieces,
                                session_effects& out) {
  if (finished_ || cancelled_) return;
  pending_bytes_ += text.size();
  prompt_.text += text;
  for (auto& p : pieces) {
    pending_bytes_ += cost_of(p);
    prompt_.tokens.push_back(std::move(p));
  }
  deliver_if_possible(out);
}

void session_machine::on_token(decoded_token t, time_us now, session_effects& out) {
  if (finished_ || cancelled_) return;  // late: neither shown nor counted, so usage has no races
  if (++completion_tokens_ == 1) cached_tokens_ = t.cached_tokens;
  if (t.is_end) return;
  const bool may_stop = completion_tokens_ > options_.min_tokens;
  const bool repetition = repeats(t.piece.token) && may_stop;
  const auto start = fed_;
  fed_ += t.text.size();
  if (options_.want_logprobs) {
    // A token without text of its own (part of a UTF-8 character) belongs to the text that follows.
    pieces_.push_back({std::move(t.piece), start, std::max(fed_, start + 1)});
  }
  auto text = matcher_.push(t.text, may_stop);
  if (matcher_.matched() || repetition) {
    generation_end end;
    if (matcher_.matched()) {
      conclude_stop(end, text);
    } else {
      show(text, everything);
      end.reason = end_reason::stop_repetition;
      conclude_text(end, t.tail);
    }
    ask_cancel(end.reason, now, out);
    finish(std::move(end), out);
    return;
  }
  show(text, everything);
  deliver_if_possible(out);
  watch_reader(out);
}

void session_machine::on(const ended& m, std::string tail, session_effects& out) {
  if (!finished_) {
    generation_end end;
    end.reason = m.why;
    end.message = m.message;
    end.stop_token = m.stop_token;
    prompt_tokens_ = m.prompt_tokens;
    end.times = m.times;
    cached_tokens_ = m.cached_tokens;
    if (cancelled_) {  // tokens may have been dropped, so this text must not count as whole
      tail.clear();
      if (natural(end.reason)) {
        end.reason = *cancelled_;
        end.stop_token.reset();
      }
    }
    if (!gone_) conclude_text(end, tail);
    finish(std::move(end), out);
  }
  quit(out);
}

void session_machine::on_delivered(session_effects& out) {
  outstanding_ = false;
  if (finished_) return;
  deliver_if_possible(out);
  watch_reader(out);
}

void session_machine::on_cancel(end_reason why, time_us seen_at, session_effects& out) {
  if (finished_ || cancelled_) return;
  gone_ = why == end_reason::client_gone;
  ask_cancel(why, seen_at, out);
}

void session_machine::on_unsubmitted_end(end_reason why, session_effects& out) {
  if (!finished_) {
    gone_ = why == end_reason::client_gone;
    generation_end end;
    end.reason = why;
    finish(std::move(end), out);
  }
  quit(out);
}

void session_machine::on_engine_down(session_effects& out) {
  if (!finished_) {
    generation_end end;
    end.reason = end_reason::engine_failed;
    end.message = "the engine stopped before the request was complete";
    finish(std::move(end), out);
  }
  quit(out);
}

bool session_machine::finished() const {
  return finished_;
}

token_usage session_machine::usage() const {
  return {prompt_tokens_, cached_tokens_, completion_tokens_};
}

// ---- text out

void session_machine::show(const std::string& text, std::uint64_t cut) {
  shown_ += text.size();
  pending_bytes_ += text.size();
  pending_.text += text;
  release_pieces(shown_, cut);
}

// Pieces are in text order, so those that are ready are a prefix.
void session_machine::release_pieces(std::uint64_t ready_up_to, std::uint64_t start_below) {
  std::size_t n = 0;
  for (; n < pieces_.size() && pieces_[n].ready <= ready_up_to; ++n) {
    if (pieces_[n].start >= start_below) continue;
    pending_bytes_ += cost_of(pieces_[n].piece);
    pending_.tokens.push_back(std::move(pieces_[n].piece));
  }
  pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(n));
}

// Releases the text before the stop (or up to its end, when it is included), with the pieces that
// have a part in it.
void session_machine::conclude_stop(generation_end& end, const std::string& text) {
  end.reason = end_reason::stop_string;
  end.stop_string = matcher_.matched();
  show(text, everything);
  release_pieces(everything, shown_);
}

// The answer ended for the reason in `end`. The last text, or the end itself, may complete a stop
// string: that replaces a natural reason; under any other reason it only cuts the text.
void session_machine::conclude_text(generation_end& end, const std::string& tail) {
  fed_ += tail.size();
  auto text = matcher_.push(tail, completion_tokens_ > options_.min_tokens);
  if (!matcher_.matched()) text += matcher_.flush();
  if (!matcher_.matched()) {
    show(text, everything);
    release_pieces(everything, everything);
  } else if (natural(end.reason)) {
    end.stop_token.reset();
    conclude_stop(end, text);
  } else {
    generation_end unused;
    conclude_stop(unused, text);
  }
}

// Does the answer, with this token, end in the same `ngram` tokens `times` times in a row?
bool session_machine::repeats(token_id token) {
  if (!options_.repetition) return false;
  const auto [ngram, times] = *options_.repetition;
  if (recent_.size() < ngram) {
    recent_.push_back(token);
    return false;
  }
  auto& before = recent_[recent_at_];
  repeated_ = before == token ? repeated_ + 1 : 0;
  before = token;
  recent_at_ = (recent_at_ + 1) % ngram;
  return repeated_ >= std::uint64_t{ngram} * (times - 1);
}

void session_machine::deliver_if_possible(session_effects& out) {
  if (outstanding_ || gone_) return;
  auto& next = empty(prompt_) ? pending_ : prompt_;
  if (empty(next)) return;
  generation_delta delta;
  delta.prompt = next.prompt;
  std::swap(delta, next);
  delta.completion_tokens = completion_tokens_;
  pending_bytes_ = 0;
  if (!empty(pending_)) {  // the prompt went first; what is left is generated text
    pending_bytes_ = pending_.text.size();
    for (const auto& p : pending_.tokens) pending_bytes_ += cost_of(p);
  }
  outstanding_ = true;
  out.emplace_back(session_effect::deliver{std::move(delta)});
}

// Only text that could be delivered counts: what is held back for a possible stop is not the
// reader's fault. Resuming at half the limit keeps a reader near it from pausing with every token.
void session_machine::watch_reader(session_effects& out) {
  if (finished_ || cancelled_) return;
  if (!stalled_ && outstanding_ && pending_bytes_ > options_.outbound_bytes_max) {
    stalled_ = true;
    out.emplace_back(session_effect::stalled{});
  } else if (stalled_ && pending_bytes_ <= options_.outbound_bytes_max / 2) {
    stalled_ = false;
    out.emplace_back(session_effect::resumed{});
  }
}

// ---- the end

void session_machine::ask_cancel(end_reason why, time_us seen_at, session_effects& out) {
  if (cancelled_) return;
  cancelled_ = why;
  out.emplace_back(session_effect::cancel_request{{options_.request, why, seen_at}});
}

void session_machine::finish(generation_end end, session_effects& out) {
  finished_ = true;
  end.usage = usage();
  if (!gone_) {
    end.last.prompt = !empty(prompt_) && empty(pending_);
    append(end.last, std::move(prompt_));
    append(end.last, std::move(pending_));
  }
  end.last.completion_tokens = completion_tokens_;
  prompt_ = {};
  pending_ = {};
  pieces_.clear();
  pending_bytes_ = 0;
  out.emplace_back(session_effect::finish{std::move(end)});
}

void session_machine::quit(session_effects& out) {
  if (quit_) return;
  quit_ = true;
  out.emplace_back(session_effect::quit{});
}

// ---- for the explorer

void session_machine::add_to(state_hash& h) const {
  const auto add = [&h](const generation_delta& d) {
    h.add(std::string_view(d.text)).add(d.tokens.size());
    for (const auto& p : d.tokens) h.add(p.token);
  };
  matcher_.add_to(h);
  h.add(prompt_tokens_)
      .add(cached_tokens_)
      .add(completion_tokens_)
      .add(recent_)
      .add(recent_at_)
      .add(repeated_);
  h.add(fed_).add(shown_).add(pieces_.size()).add(pending_bytes_);
  for (const auto& p : pieces_) h.add(p.piece.token).add(p.start).add(p.ready);
  add(prompt_);
  add(pending_);
  h.add(outstanding_).add(stalled_).add(cancelled_).add(gone_).add(finished_).add(quit_);
}

}  // namespace troupe::core
