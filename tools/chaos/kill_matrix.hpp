// The matrix of deaths: transport x manner x moment, and for each cell the N at which the next
// client dies. Owned by the campaign. Pure and deterministic by its seed; it never sees a socket or
// a clock.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "tools/client/transport.hpp"

namespace troupe::chaos {

using api_client::manner;
using api_client::transport;

/// What N counts.
enum class moment : std::uint8_t { bytes_sent, events_received, milliseconds };

inline constexpr std::array<std::string_view, 3> transport_names{"plain", "sse", "websocket"};
inline constexpr std::array<std::string_view, 6> manner_names{
    "fin", "rst", "half-close", "close-frame", "silence", "kill-9"};
inline constexpr std::array<std::string_view, 3> moment_names{"bytes-sent", "events-received",
                                                              "milliseconds"};

template <typename Enum, std::size_t Count>
constexpr std::string_view name_in(const std::array<std::string_view, Count>& names, Enum value) {
  return names[static_cast<std::size_t>(value)];
}
inline std::string_view name_of(transport t) {
  return name_in(transport_names, t);
}
inline std::string_view name_of(manner m) {
  return name_in(manner_names, m);
}
inline std::string_view name_of(moment m) {
  return name_in(moment_names, m);
}

struct cell {
  transport over = transport::sse;
  manner how = manner::fin;
  moment when = moment::bytes_sent;
  std::uint64_t kills = 0, survived = 0, sweeps = 0;
  std::uint32_t next_n = 0, largest_n = 0;
};

/// One client's death as planned.
struct kill_plan {
  std::size_t index = 0;  // of the cell
  transport over = transport::sse;
  manner how = manner::fin;
  moment when = moment::bytes_sent;
  std::uint32_t n = 0;
  std::uint64_t sweep = 0;
};

/// How far N moves within a sweep. The next sweep begins one further, so that every N has its turn.
struct strides {
  std::uint32_t bytes = 1, events = 1, milliseconds = 1;
};

class kill_matrix {
 public:
  /// A close frame exists on a WebSocket only; the other combinations all do.
  kill_matrix(const std::vector<transport>& transports, const std::vector<manner>& manners,
              strides by, std::uint64_t seed);

  /// The cells take turns in a shuffled order, each at its own N.
  kill_plan next();
  void killed(const kill_plan&);
  /// The request was over before its N came: the cell's sweep is complete and begins anew.
  void survived(const kill_plan&);

  const std::vector<cell>& cells() const { return cells_; }
  bool empty() const { return cells_.empty(); }

 private:
  std::uint32_t stride(moment) const;

  strides by_;
  std::vector<cell> cells_;
  std::vector<std::size_t> turn_;  // this round's order
  std::size_t taken_ = 0;          // of it
  std::mt19937_64 random_;
};

}  // namespace troupe::chaos
