// A value that is copied by counting a reference, for what a request carries through every step and
// seldom changes. Equal by content; copy-on-write, so copies may live on different threads.
#pragma once
#include <atomic>
#include <memory>
#include <utility>

namespace troupe {

template <class T>
class shared_value {
 public:
  shared_value() = default;  ///< T's defaults, without an allocation
  shared_value(T value) : value_(std::make_shared<T>(std::move(value))) {}

  const T& operator*() const { return value_ ? *value_ : defaults(); }
  const T* operator->() const { return &**this; }

  /// For changing it: from here on this copy is its own. The reference is good until the next copy.
  T& edit() {
    if (value_.use_count() == 1)
      std::atomic_thread_fence(std::memory_order_acquire);  // the last other copy's reads are over
    else
      value_ = std::make_shared<T>(**this);
    return *value_;
  }

  friend bool operator==(const shared_value& a, const shared_value& b) {
    return a.value_ == b.value_ || *a == *b;
  }

 private:
  static const T& defaults() {
    static const T value{};
    return value;
  }

  std::shared_ptr<T> value_;
};

}  // namespace troupe
