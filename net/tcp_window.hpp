// What the kernel knows of a peer that does not read. Apart, because its header and Asio's cannot be included together.
// Owns nothing; never changes the socket.
#pragma once

namespace troupe::net {

/// The last thing the peer said was that it takes no more bytes. Also of a connection the kernel has given up.
bool window_is_shut(int socket);

}  // namespace troupe::net
