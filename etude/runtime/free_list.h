// SPDX-License-Identifier: Apache-2.0
// Memory of small objects that are made and destroyed very often: a free list per thread. An object
// may be destroyed by another thread than the one that made it.
#pragma once

#include <cstddef>
#include <new>
#include <utility>

namespace etude::internal {

// Base of the objects: class Node : public FromFreeList<Node>. Not for classes that others derive
// from.
template <class T>
class FromFreeList {
 public:
  static void* operator new(std::size_t bytes) {
    Block* const block = free_;
    if (block == nullptr) return ::operator new(bytes);
    free_ = block->next;
    --count_;
    return block;
  }
  static void operator delete(void* at) noexcept {
    if (count_ >= kMost || is_over_) return ::operator delete(at);
    static thread_local const End end;  // frees the list when the thread ends
    static_cast<void>(&end);
    free_ = new (at) Block{free_};
    ++count_;
  }

 private:
  static constexpr std::size_t kMost = 8192;
  struct Block {
    Block* next;
  };
  struct End {
    ~End() {
      is_over_ = true;
      while (free_ != nullptr) ::operator delete(std::exchange(free_, free_->next));
      count_ = 0;
    }
  };

  static inline thread_local constinit Block* free_ = nullptr;
  static inline thread_local constinit std::size_t count_ = 0;
  static inline thread_local constinit bool is_over_ = false;
};

}  // namespace etude::internal
