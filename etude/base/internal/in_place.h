// SPDX-License-Identifier: Apache-2.0
// A member whose type is complete only in the source file. The object is stored inside its owner,
// so a public header neither includes the type's parts nor pays for an allocation.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// T may be incomplete at the declaration of the member. The owner's constructors and destructor are
// defined where T is complete, and check there that `Bytes` suffices.
template <class T, std::size_t Bytes>
class InPlace {
 public:
  template <class... Args>
  explicit InPlace(Args&&... args) {
    static_assert(sizeof(T) <= Bytes && alignof(T) <= alignof(std::max_align_t));
    ::new (static_cast<void*>(bytes_)) T(std::forward<Args>(args)...);
  }
  InPlace(const InPlace&) = delete;
  InPlace& operator=(const InPlace&) = delete;
  ~InPlace() { std::destroy_at(get()); }

  T* operator->() noexcept { return get(); }
  const T* operator->() const noexcept { return const_cast<InPlace*>(this)->get(); }

 private:
  T* get() noexcept { return std::launder(reinterpret_cast<T*>(bytes_)); }

  alignas(std::max_align_t) std::byte bytes_[Bytes];
};

}  // namespace internal
}  // namespace etude
