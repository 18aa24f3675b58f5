// Lets the n-th thread that this process tries to make be refused, whoever makes it: our own
// helper, CAF, the C++ library. Only in binaries that link refused_threads.cpp, which puts itself
// before the C library's pthread_create.
#pragma once

namespace troupe::test {

/// Counted from now, 1 is the next one; it fails with EAGAIN, once. 0: none.
void refuse_thread(int which);

}  // namespace troupe::test
