// What the kernel knows of a peer that does not read. A source of its own, because the kernel's
// header and Asio's cannot be included together. Owns nothing; never changes the socket.
#pragma once

namespace troupe::net {

/// The peer's last acknowledgement said that it takes no more bytes (a zero window). Also of a
/// connection the kernel has given up.
bool window_is_zero(int socket);

/// Watches a connection whose read may be stuck behind a write: then no end of file reaches the
/// program, and only the kernel knows that the peer has closed. Call check() at a steady pace.
class peer_watch {
 public:
  /// quiet: no bytes wait in either direction. busy: some do. gone: the peer has closed its side.
  /// never_reads: it sends, and does not take what we send.
  enum class verdict { quiet, busy, gone, never_reads };

  /// `reading`: the program has a read pending. never_reads is the verdict when, for `checks_max`
  /// checks in a row, more bytes than a read takes at once (16 KiB), or more than the receive
  /// buffer holds, have waited for that read, and it has taken less than 16 KiB of them. It may
  /// take some: a peer with a zero window opens it briefly now and then.
  verdict check(int socket, bool reading, int checks_max);

 private:
  bool closed_ = false;           ///< at the last check
  int stuck_checks_ = 0;          ///< in a row
  unsigned long long taken_ = 0;  ///< bytes the program had read at the first of them
};

}  // namespace troupe::net
