#include "tests/net/fake_engine.hpp"

namespace troupe::net::test {

using clock = std::chrono::steady_clock;

struct fake_engine::playing {
  std::uint64_t id = 0;
  script plan;
  core::generation_request request;
  std::weak_ptr<core::generation_sink> sink;
  bool accepted = false, outstanding = false;
  std::size_t next = 0;
  std::uint32_t completion = 0;
  clock::time_point due{};
  std::optional<core::end_reason> cancelled;
};

struct fake_engine::handle final : core::generation {
  handle(fake_engine& e, std::uint64_t i) : engine{e}, number{i} {}
  core::request_id id() const override { return {number}; }
  core::life_phase phase() const override {
    const std::lock_guard lock{engine.mutex_};
    const auto found = engine.playing_.find(number);
    if (found == engine.playing_.end()) return core::life_phase::done;
    if (found->second->completion > 0) return core::life_phase::decode;
    return found->second->accepted ? core::life_phase::prefill : core::life_phase::queued;
  }
  void delivered() override {
    const std::lock_guard lock{engine.mutex_};
    const auto found = engine.playing_.find(number);
    if (found == engine.playing_.end()) return;
    if (!found->second->outstanding) engine.overrun_ = true;
    found->second->outstanding = false;
  }
  void cancel(core::end_reason why, core::time_us seen_at) override {
    const std::lock_guard lock{engine.mutex_};
    engine.cancels_.push_back({number, why, seen_at});
    const auto found = engine.playing_.find(number);
    if (found != engine.playing_.end()) found->second->cancelled = why;
  }
  fake_engine& engine;
  std::uint64_t number;
};

fake_engine::fake_engine() : thread_{[this] { run(); }} {}

fake_engine::~fake_engine() {
  {
    const std::lock_guard lock{mutex_};
    stop_ = true;
  }
  thread_.join();
}

void fake_engine::play(std::function<script(std::size_t)> p) {
  const std::lock_guard lock{mutex_};
  play_ = std::move(p);
}

std::vector<core::generation_request> fake_engine::submitted() const {
  const std::lock_guard lock{mutex_};
  return submitted_;
}

std::vector<recorded_cancel> fake_engine::cancels() const {
  const std::lock_guard lock{mutex_};
  return cancels_;
}

std::size_t fake_engine::live() const {
  const std::lock_guard lock{mutex_};
  return playing_.size();
}

std::size_t fake_engine::deltas_sent() const {
  const std::lock_guard lock{mutex_};
  return deltas_sent_;
}

bool fake_engine::overrun() const {
  const std::lock_guard lock{mutex_};
  return overrun_;
}

bool fake_engine::eventually(const std::function<bool()>& condition) {
  const auto until = clock::now() + std::chrono::seconds{20};
  while (!condition()) {
    if (clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return true;
}

std::shared_ptr<core::generation> fake_engine::submit(core::generation_request request,
                                                      std::weak_ptr<core::generation_sink> sink) {
  const std::lock_guard lock{mutex_};
  auto p = std::make_shared<playing>();
  p->id = submitted_.size() + 1;
  p->plan = play_(submitted_.size());
  std::vector<std::string> once = p->plan.pieces;
  for (std::uint32_t i = 1; i < p->plan.repeat; ++i)
    p->plan.pieces.insert(p->plan.pieces.end(), once.begin(), once.end());
  p->request = request;
  p->sink = std::move(sink);
  submitted_.push_back(std::move(request));
  const std::uint64_t id = p->id;
  playing_.emplace(id, std::move(p));
  return std::make_shared<handle>(*this, id);
}

core::engine_health fake_engine::health() const {
  return health_now;
}

std::vector<token_id> fake_engine::encode(const core::generation_request& r) const {
  if (before_encode) before_encode();
  std::string text;
  if (const auto* s = std::get_if<std::string>(&r.prompt)) text = *s;
  if (const auto* messages = std::get_if<std::vector<core::chat_message>>(&r.prompt))
    for (const auto& m : *messages) {
      if (m.role == "tool") throw std::invalid_argument("the template has no tool role");
      text += m.role + ":" + m.content + "\n";
    }
  std::vector<token_id> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

std::string fake_engine::decode(const std::vector<token_id>& tokens) const {
  std::string text;
  for (const token_id t : tokens) text += static_cast<char>(t);
  return text;
}

core::time_us fake_engine::now() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(clock::now().time_since_epoch())
      .count();
}

void fake_engine::run() {
  for (;;) {
    {
      const std::lock_guard lock{mutex_};
      if (stop_) return;
      for (auto it = playing_.begin(); it != playing_.end();)
        it = step(*it->second) ? playing_.erase(it) : std::next(it);
    }
    std::this_thread::sleep_for(std::chrono::microseconds{200});
  }
}

namespace {

core::generation_delta delta_of(const std::string& text, bool with_tokens, bool prompt,
                                std::uint32_t completion) {
  core::generation_delta d;
  d.text = text;
  d.prompt = prompt;
  d.completion_tokens = completion;
  if (!with_tokens) return d;
  bool first = prompt;
  for (const char c : text) {
    core::token_piece piece;
    piece.token = static_cast<unsigned char>(c);
    piece.bytes = std::string(1, c);
    if (!first) {
      piece.logprob = -0.5f;
      piece.top = {{piece.token, -0.5f}, {'?', -1.5f}};
    }
    first = false;
    d.tokens.push_back(std::move(piece));
  }
  return d;
}

}  // namespace

bool fake_engine::step(playing& p) {
  const auto sink = p.sink.lock();
  if (p.cancelled || !sink) {
    end(p, p.cancelled.value_or(core::end_reason::client_gone));
    return true;
  }
  if (p.plan.reason == core::end_reason::refused) {
    end(p, core::end_reason::refused);
    return true;
  }
  if (p.plan.hold == hold_at::queued) return false;
  if (!p.accepted) {
    p.accepted = true;
    p.due = clock::now() + p.plan.pause;
    sink->accepted(7);
    return false;
  }
  if (p.plan.hold == hold_at::prefill || p.outstanding || clock::now() < p.due) return false;
  const bool scores = p.request.decode.top_logprobs >= 0;
  if (p.request.echo) {
    p.request.echo = false;
    const auto* text = std::get_if<std::string>(&p.request.prompt);
    p.outstanding = true;
    ++deltas_sent_;
    sink->delta(delta_of(text ? *text : "tokens", scores, true, 0));
    return false;
  }
  if (p.plan.hold == hold_at::decode && p.next == 1) return false;
  const bool full = p.request.decode.max_tokens && p.completion >= *p.request.decode.max_tokens;
  if (full || p.next == p.plan.pieces.size()) {
    end(p, full ? core::end_reason::length : p.plan.reason);
    return true;
  }
  p.outstanding = true;
  p.due = clock::now() + p.plan.pause;
  ++deltas_sent_;
  sink->delta(delta_of(p.plan.pieces[p.next++], scores, false, ++p.completion));
  return false;
}

void fake_engine::end(playing& p, core::end_reason why) {
  const auto sink = p.sink.lock();
  if (!sink) return;
  core::generation_end e;
  e.reason = why;
  e.why_refused = p.plan.why_refused;
  e.message = p.plan.message;
  e.stop_string = p.plan.stop_string;
  e.usage = {7, 2, p.completion};
  e.times = {100, 2000, 1900, 3000, 5000};
  e.last.completion_tokens = p.completion;
  sink->end(std::move(e));
}

}  // namespace troupe::net::test
