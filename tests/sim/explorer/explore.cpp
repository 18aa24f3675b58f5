#include "tests/sim/explorer/explore.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>

namespace troupe::core::sim {

namespace {

/// Digests in one flat table: linear probing, at most three quarters full.
class digest_set {
 public:
  /// False: it was there.
  bool insert(state_digest d) {
    if (d == state_digest{}) d.low = 1;  // zero marks an empty place
    if ((size_ + 1) * 4 > places_.size() * 3) grow();
    if (!put(places_, d)) return false;
    ++size_;
    return true;
  }
  std::size_t size() const { return size_; }

 private:
  static bool put(std::vector<state_digest>& places, state_digest d) {
    const auto mask = places.size() - 1;
    auto at = static_cast<std::size_t>(d.low) & mask;
    for (; places[at] != state_digest{}; at = (at + 1) & mask)
      if (places[at] == d) return false;
    places[at] = d;
    return true;
  }
  void grow() {
    std::vector<state_digest> wider(places_.size() * 2);
    for (const auto& d : places_)
      if (d != state_digest{}) put(wider, d);
    places_ = std::move(wider);
  }
  std::vector<state_digest> places_{std::size_t{1} << 16};
  std::size_t size_ = 0;
};

struct frame {
  world here;
  state_digest digest;
  std::vector<choice> todo;
  std::size_t next = 0;
};

void note_pairs(report& r, const std::vector<frame>& stack, fault now) {
  for (const auto& f : stack) {
    if (f.next == 0) continue;
    const auto& taken = f.todo[f.next - 1];
    if (&f != &stack.back() && taken.what == choice::kind::fault)
      r.pairs.insert({std::min(taken.which, now), std::max(taken.which, now)});
  }
}

std::vector<choice> path_to(const std::vector<frame>& stack) {
  std::vector<choice> path;
  for (const auto& f : stack)
    if (f.next > 0) path.push_back(f.todo[f.next - 1]);
  return path;
}

}  // namespace

report explore(const scenario& scene, const bounds& limit,
               const std::function<void(const report&)>& progress) {
  report r;
  r.scenario = scene.name;
  const auto began = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  auto most = std::numeric_limits<std::uint64_t>::max();
  if (limit.transitions_max > 0) most = limit.transitions_max;
  if (scene.transitions_max > 0) most = std::min(most, scene.transitions_max);
  digest_set visited;
  std::set<state_digest> under_way;
  std::vector<frame> stack;
  try {
    const auto enter = [&](world w) {
      const auto digest = w.digest();
      if (!visited.insert(digest)) {
        if (under_way.contains(digest))
          throw broken("a run returns to a state it was in: it may never end");
        return;
      }
      auto todo = w.choices();
      if (std::all_of(todo.begin(), todo.end(),
                      [](const choice& c) { return c.what == choice::kind::fault; })) {
        w.require_whole();
        ++r.ends;
      }
      under_way.insert(digest);
      stack.push_back({std::move(w), digest, std::move(todo)});
      r.depth_max = std::max(r.depth_max, stack.size());
    };
    enter(world(scene));
    while (!stack.empty()) {
      auto& top = stack.back();
      if (top.next == top.todo.size()) {
        under_way.erase(top.digest);
        stack.pop_back();
        continue;
      }
      if (r.transitions >= most || visited.size() >= limit.states_max) {
        r.complete = false;
        break;
      }
      const auto c = top.todo[top.next++];
      if (c.what == choice::kind::fault && top.here.faults_met() > 0) note_pairs(r, stack, c.which);
      ++r.transitions;
      auto next = top.next == top.todo.size() ? std::move(top.here) : top.here;
      next.apply(c, r.cells);
      enter(std::move(next));
      if (progress && r.transitions % 500'000 == 0) {
        r.states = visited.size();
        r.seconds = elapsed();
        progress(r);
      }
    }
  } catch (const broken& e) {
    r.broken = e.what();
    r.path = path_to(stack);
  }
  r.states = visited.size();
  r.seconds = elapsed();
  return r;
}

std::vector<std::string> replay(const scenario& scene, const std::vector<choice>& path) {
  std::vector<std::string> story;
  cell_counts cells{};
  world w(scene);
  try {
    for (const auto& c : path) {
      const auto all = w.choices();
      if (std::none_of(all.begin(), all.end(),
                       [&](const choice& x) { return text_of(x) == text_of(c); }))
        throw std::invalid_argument("the replay does not fit: \"" + text_of(c) +
                                    "\" can't happen here");
      w.apply(c, cells, &story);
    }
    const auto all = w.choices();
    if (std::all_of(all.begin(), all.end(),
                    [](const choice& c) { return c.what == choice::kind::fault; }))
      w.require_whole();
  } catch (const broken& e) {
    story.push_back(std::string("BROKEN: ") + e.what());
  }
  return story;
}

std::string text_of(const std::vector<choice>& path) {
  std::string out;
  for (const auto& c : path) out += (out.empty() ? "" : ",") + text_of(c);
  return out;
}

std::vector<choice> path_of(const std::string& text) {
  std::map<std::string, choice> names;
  for (int k = 0; k <= static_cast<int>(choice::kind::fault); ++k)
    for (int f = 0; f < fault_count; ++f) {
      const choice c{static_cast<choice::kind>(k), static_cast<fault>(f), 0};
      const auto words = text_of(c);
      names.emplace(words.substr(0, words.find(':')), c);
    }
  std::vector<choice> path;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    const auto word = text.substr(at, end - at);
    const auto colon = word.find(':');
    const auto found = names.find(word.substr(0, colon));
    if (colon == std::string::npos || found == names.end())
      throw std::invalid_argument("--replay: \"" + word + "\" is not a choice");
    auto c = found->second;
    c.who = static_cast<std::uint8_t>(std::stoul(word.substr(colon + 1)));
    path.push_back(c);
    at = end + 1;
  }
  return path;
}

}  // namespace troupe::core::sim
