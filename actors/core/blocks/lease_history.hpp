// The last events of every live request's leases and of the requests that ended last, for the
// report of a leak and for /debug/kv. Kept by the scheduler's shell, beside the machine; decides
// nothing. Pure: time comes in. Bounded: 8 events per request, 32 ended requests.
#pragma once
#include <array>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/api/kv_audit.hpp"

namespace troupe::core {

class lease_history {
 public:
  static constexpr std::size_t events_kept = 8, ended_kept = 32;

  void begin(request_id, time_us at);
  /// `what` must be a literal. Unknown requests are ignored. Equal events in a row become one.
  void note(lease_id, const char* what, time_us at);
  /// Under the request's latest lease.
  void note(request_id, const char* what, time_us at);
  void end(request_id, time_us at);

  std::vector<kv_event> of(request_id) const;
  /// "admitted +0 us, reserve 3.1 +12 us, ...": times from the first event. "no events kept" if so.
  std::string words(request_id) const;

 private:
  struct ring {
    std::array<kv_event, events_kept> events;
    std::size_t next = 0, count = 0;
    std::uint32_t epoch = 0;
  };
  static void add(ring&, std::uint32_t epoch, const char* what, time_us at);
  template <class Self>
  static auto* find_in(Self& self, request_id);  // constness of `self`

  std::unordered_map<request_id, ring> live_;
  std::deque<std::pair<request_id, ring>> ended_;
};

}  // namespace troupe::core
