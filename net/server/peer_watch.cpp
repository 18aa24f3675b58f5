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

constexpr unsigned unread_max = 16 * 1024;

/// The receive buffer takes no more: a big packet that is read in part counts whole, so little may
/// be left to read.
bool is_full(int socket) {
  std::uint32_t used[SK_MEMINFO_VARS] = {};
  socklen_t size = sizeof used;
  if (::getsockopt(socket, SOL_SOCKET, SO_MEMINFO, used, &size) != 0) return false;
  return std::uint64_t{used[SK_MEMINFO_RMEM_ALLOC]} * 4 >
         std::uint64_t{used[SK_MEMINFO_RCVBUF]} * 3;
}

}  // namespace

bool window_is_shut(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  // An older kernel fills less of it.
  return size >= offsetof(tcp_info, tcpi_snd_wnd) + sizeof info.tcpi_snd_wnd &&
         info.tcpi_snd_wnd == 0;
}

peer_watch::sight peer_watch::look(int socket, bool reading, int patience) {
  // The states of the protocol, as the kernel numbers them; its header cannot be had together with
  // the system's.
  constexpr int time_wait = 6, closed = 7, close_wait = 8, last_ack = 9, closing = 11;
  tcp_info info{};
  socklen_t size = sizeof info;
  int unread = 0, unsent = 0;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      ::ioctl(socket, FIONREAD, &unread) != 0 || ::ioctl(socket, SIOCOUTQ, &unsent) != 0)
    return sight::quiet;
  const int state = info.tcpi_state;
  const bool has_left = state == time_wait || state == closed || state == close_wait ||
                        state == last_ack || state == closing;
  // At the first look the read may only not have had its turn.
  if (has_left && closed_) return sight::gone;
  closed_ = has_left;
  const unsigned long long taken = info.tcpi_bytes_received - static_cast<unsigned>(unread);
  const bool waits = static_cast<unsigned>(unread) > unread_max || (unread > 0 && is_full(socket));
  if (!reading || !waits || taken - taken_ >= unread_max) {
    stuck_looks_ = 0;
    taken_ = taken;
  } else {
    ++stuck_looks_;
  }
  if (stuck_looks_ >= patience) return sight::deaf;
  return has_left || unread > 0 || unsent > 0 ? sight::busy : sight::quiet;
}

}  // namespace troupe::net
