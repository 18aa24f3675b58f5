#include "net/server/peer_watch.hpp"

#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>

namespace troupe::net {
namespace {

/// Bytes; a connection whose read goes on takes them within one check.
constexpr unsigned unread_max = 16 * 1024;

/// The receive buffer is nearly full. The kernel counts memory, not bytes: a big packet of which a
/// part has been read still counts whole, so few bytes may be left to read in a full buffer.
bool is_full(int socket) {
  std::uint32_t used[SK_MEMINFO_VARS] = {};
  socklen_t size = sizeof used;
  if (::getsockopt(socket, SOL_SOCKET, SO_MEMINFO, used, &size) != 0) return false;
  return std::uint64_t{used[SK_MEMINFO_RMEM_ALLOC]} * 4 >
         std::uint64_t{used[SK_MEMINFO_RCVBUF]} * 3;
}

}  // namespace

bool window_is_zero(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  // An older kernel fills less of the structure.
  return size >= offsetof(tcp_info, tcpi_snd_wnd) + sizeof info.tcpi_snd_wnd &&
         info.tcpi_snd_wnd == 0;
}

peer_watch::verdict peer_watch::check(int socket, bool reading, int checks_max) {
  // The states of the protocol, as the kernel numbers them; its header cannot be had together with
  // the system's.
  constexpr int time_wait = 6, closed = 7, close_wait = 8, last_ack = 9, closing = 11;
  tcp_info info{};
  socklen_t size = sizeof info;
  int unread = 0, unsent = 0;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      ::ioctl(socket, FIONREAD, &unread) != 0 || ::ioctl(socket, SIOCOUTQ, &unsent) != 0)
    return verdict::quiet;
  const int state = info.tcpi_state;
  const bool has_left = state == time_wait || state == closed || state == close_wait ||
                        state == last_ack || state == closing;
  // Only at the second check: at the first the read may not have had its turn yet.
  if (has_left && closed_) return verdict::gone;
  closed_ = has_left;
  const unsigned long long taken = info.tcpi_bytes_received - static_cast<unsigned>(unread);
  const bool waits = static_cast<unsigned>(unread) > unread_max || (unread > 0 && is_full(socket));
  if (!reading || !waits || taken - taken_ >= unread_max) {
    stuck_checks_ = 0;
    taken_ = taken;
  } else {
    ++stuck_checks_;
  }
  if (stuck_checks_ >= checks_max) return verdict::never_reads;
  return has_left || unread > 0 || unsent > 0 ? verdict::busy : verdict::quiet;
}

}  // namespace troupe::net
