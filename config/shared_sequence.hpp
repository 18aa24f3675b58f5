// A sequence of small values that is shared, not copied: a prompt's tokens, a request's history, a
// block table. A value: equal by content, copied by counting a reference. It only grows at its end.
//
//   writer  [ a b c d | e . . . ]   one buffer, five places taken
//   reader  [ a b c d |             an older copy of the value: its size is its own
//
// The first copy to append behind the last place taken gets that place; any other that appends
// takes a buffer of its own. What a copy holds is never written again, so copies may be read and
// appended to from different threads; one object belongs to one thread at a time.
#pragma once
#include <algorithm>
#include <atomic>
#include <compare>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe {

template <class T>
class shared_sequence {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;
  using const_iterator = const T*;

  shared_sequence() = default;
  shared_sequence(std::initializer_list<T> items) { append({items.begin(), items.size()}); }
  shared_sequence(const std::vector<T>& items) { append(items); }
  template <std::input_iterator Iterator>
  shared_sequence(Iterator first, Iterator last) : shared_sequence(std::vector<T>(first, last)) {}
  explicit shared_sequence(std::size_t count, T item)
      : shared_sequence(std::vector<T>(count, item)) {}

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* data() const { return buffer_ ? buffer_->items.get() : nullptr; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  const T& at(std::size_t i) const {
    if (i >= size_) throw std::out_of_range("shared_sequence");
    return data()[i];
  }
  const T& front() const { return data()[0]; }
  const T& back() const { return data()[size_ - 1]; }

  void push_back(T item) { append({&item, 1}); }
  void append(std::span<const T> more) {
    if (more.empty()) return;
    const auto old = buffer_;  // `more` may lie in it
    auto free_from = size_;
    const bool fits = old && old->capacity - size_ >= more.size() &&
                      old->taken.compare_exchange_strong(free_from, size_ + more.size());
    if (!fits) {
      buffer_ = std::make_shared<buffer>(size_ + more.size(), old ? size_ / 2 + headroom : 0);
      if (old) std::copy_n(old->items.get(), size_, buffer_->items.get());
    }
    std::copy(more.begin(), more.end(), buffer_->items.get() + size_);
    size_ += more.size();
  }

  friend bool operator==(const shared_sequence& a, const shared_sequence& b) {
    return a.size_ == b.size_ &&
           (a.buffer_ == b.buffer_ || std::equal(a.begin(), a.end(), b.begin()));
  }
  friend bool operator==(const shared_sequence& a, const std::vector<T>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend auto operator<=>(const shared_sequence& a, const shared_sequence& b) {
    return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
  }
  /// Both look at the same memory: nothing was copied between them. For tests and measurements.
  bool shares_with(const shared_sequence& other) const {
    return buffer_ && buffer_ == other.buffer_;
  }

 private:
  /// Places a buffer gets beyond half of its content when it has to be made anew: an answer's first
  /// tokens then cost one copy.
  static constexpr std::size_t headroom = 16;

  struct buffer {
    buffer(std::size_t used, std::size_t more)
        : capacity(used + more),
          taken(used),
          items(std::make_unique_for_overwrite<T[]>(used + more)) {}
    std::size_t capacity;
    std::atomic<std::size_t> taken;  // by whichever copy appended last
    std::unique_ptr<T[]> items;
  };

  std::shared_ptr<buffer> buffer_;
  std::size_t size_ = 0;
};

}  // namespace troupe
