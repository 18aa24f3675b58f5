// What the kernel knows of a peer that does not read. Apart, because its header and Asio's cannot
// be included together. Owns nothing; never changes the socket.
#pragma once

namespace troupe::net {

/// The last thing the peer said was that it takes no more bytes. Also of a connection the kernel
/// has given up.
bool window_is_shut(int socket);

/// Looks at a connection whose read may be stuck behind a write, where no end of file is seen. Call
/// look() at a steady pace.
class peer_watch {
 public:
  enum class sight { quiet, busy, gone, deaf };
  /// quiet: nothing waits in either direction; busy: something does; gone: the peer has closed, at
  /// two looks; deaf: what it sent was more than 16 KiB or more than the kernel takes, and less
  /// than that was read, for `patience` looks while we were `reading`. Some is: a shut window opens
  /// a crack now and then.
  sight look(int socket, bool reading, int patience);

 private:
  bool closed_ = false;
  int stuck_looks_ = 0;
  unsigned long long taken_ = 0;  ///< bytes the program had read at the first of them
};

}  // namespace troupe::net
