#include "tests/support/refused_threads.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

namespace {

std::atomic<int> until_refused{0};

}  // namespace

namespace troupe::test {

void refuse_thread(int which) {
  until_refused = which;
}

}  // namespace troupe::test

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
  using create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto next = reinterpret_cast<create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (until_refused > 0 && --until_refused == 0) return EAGAIN;
  return next(thread, attributes, start, argument);
}
