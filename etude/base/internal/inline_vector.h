// SPDX-License-Identifier: Apache-2.0
// A vector whose first N elements are stored inside the object. For results, operand lists and
// axes: nearly all of these lists are short, and heap allocation would cost more than the work.
#pragma once

#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Whether moving a T and destroying the source is equivalent to copying its bytes. A class declares
// this with a member type `Relocatable`.
template <class T>
inline constexpr bool kIsRelocatable = std::is_trivially_copyable_v<T> || requires {
  typename T::Relocatable;
};

// Grows to the heap beyond N. Elements must move without throwing. threads: thread-compatible.
template <class T, std::size_t N>
class InlineVector {
 public:
  InlineVector() noexcept = default;
  // The constructors that add elements delegate to the first one: if an element or memory for it
  // fails, the destructor runs.
  InlineVector(std::initializer_list<T> items) : InlineVector() {
    for (const T& item : items) push_back(item);
  }
  explicit InlineVector(std::size_t size) : InlineVector() {
    for (std::size_t i = 0; i < size; ++i) emplace_back();
  }
  template <class It>
  InlineVector(It first, It last) : InlineVector() {
    for (; first != last; ++first) push_back(*first);
  }
  InlineVector(const InlineVector& other) : InlineVector(other.begin(), other.end()) {}
  InlineVector(InlineVector&& other) noexcept { take(other); }
  InlineVector& operator=(const InlineVector& other) {
    if (this != &other) *this = InlineVector(other);
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this == &other) return *this;
    destroy();
    take(other);
    return *this;
  }
  ~InlineVector() { destroy(); }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }
  T& operator[](std::size_t i) noexcept { return data_[i]; }
  const T& operator[](std::size_t i) const noexcept { return data_[i]; }
  T& back() noexcept { return data_[size_ - 1]; }
  const T& back() const noexcept { return data_[size_ - 1]; }

  void push_back(T item) { emplace_back(std::move(item)); }
  template <class... A>
  T& emplace_back(A&&... args) {
    if (size_ == capacity_) grow();
    T* place = new (data_ + size_) T(std::forward<A>(args)...);
    ++size_;
    return *place;
  }
  void pop_back() noexcept { data_[--size_].~T(); }
  void clear() noexcept {
    while (size_ > 0) pop_back();
  }
  void resize(std::size_t size) {
    while (size_ > size) pop_back();
    while (size_ < size) emplace_back();
  }
  friend bool operator==(const InlineVector& a, const InlineVector& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i) {
      if (!(a.data_[i] == b.data_[i])) return false;
    }
    return true;
  }

 private:
  T* local() noexcept { return std::launder(reinterpret_cast<T*>(storage_)); }
  bool is_local() const noexcept {
    return static_cast<const void*>(data_) == static_cast<const void*>(storage_);
  }
  void grow() {
    const std::size_t capacity = capacity_ * 2;
    T* data = std::allocator<T>().allocate(capacity);
    std::uninitialized_move(data_, data_ + size_, data);
    const std::size_t size = size_;
    destroy();
    data_ = data;
    size_ = size;
    capacity_ = capacity;
  }
  void destroy() noexcept {
    std::destroy(data_, data_ + size_);
    if (!is_local()) std::allocator<T>().deallocate(data_, capacity_);
    data_ = local();
    size_ = 0;
    capacity_ = N;
  }
  void take(InlineVector& other) noexcept {
    if (other.is_local()) {
      if constexpr (kIsRelocatable<T> && sizeof(storage_) <= 64) {
        // A fixed number of bytes, in one or two registers.
        std::memcpy(storage_, other.storage_, sizeof(storage_));
        size_ = std::exchange(other.size_, 0);
      } else {
        std::uninitialized_move(other.begin(), other.end(), data_);
        size_ = other.size_;
        other.clear();
      }
    } else {
      data_ = std::exchange(other.data_, other.local());
      size_ = std::exchange(other.size_, 0);
      capacity_ = std::exchange(other.capacity_, N);
    }
  }

  alignas(T) std::byte storage_[N * sizeof(T)];
  T* data_ = reinterpret_cast<T*>(storage_);
  std::size_t size_ = 0;
  std::size_t capacity_ = N;
};

}  // namespace internal
}  // namespace etude
