// SPDX-License-Identifier: Apache-2.0
// Memory for small objects that are made and destroyed by the million. Each thread has a list of
// free objects. Any thread may destroy an object.
#pragma once

#include <cstddef>
#include <exception>
#include <new>
#include <utility>

#include "etude/base/thread_object.h"

namespace etude::internal {

// The base class of such objects: class Node : public FromFreeList<Node>. Not for classes with
// derived classes.
template <class T>
class FromFreeList {
 public:
  static void* operator new(std::size_t bytes) {
    List* const list = ThreadObject<List>::find();
    if (list == nullptr || list->first == nullptr) return ::operator new(bytes);
    --list->count;
    return std::exchange(list->first, list->first->next);
  }
  static void operator delete(void* at) noexcept {
    List* const list = list_or_null();
    if (list == nullptr || list->count >= kMost) return ::operator delete(at);
    list->first = new (at) Block{list->first};
    ++list->count;
  }

 private:
  static constexpr std::size_t kMost = 8192;
  struct Block {
    Block* next;
  };
  struct List {
    Block* first = nullptr;
    std::size_t count = 0;
    ~List() {
      while (first != nullptr) ::operator delete(std::exchange(first, first->next));
    }
  };
  static List* list_or_null() noexcept {
    try {
      return &ThreadObject<List>::get();
    } catch (const std::exception&) {
      return nullptr;  // no memory for a list
    }
  }
};

}  // namespace etude::internal
