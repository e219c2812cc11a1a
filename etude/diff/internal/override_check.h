// SPDX-License-Identifier: Apache-2.0
// Rules of virtual functions: a rule belongs to the function of one class, so it must not be used
// for an override. Used by derivative.h.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <typeinfo>

#include "etude/base/error.h"
#include "etude/base/internal/type_name.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Whether f, a pointer to a member function, points to a virtual function. The C++ ABI on Linux
// marks it with a bit: of the vtable offset on x86, of the object's offset on Arm.
template <class F>
bool is_virtual(F f) {
  std::uintptr_t words[2];
  static_assert(sizeof f == sizeof words);
  std::memcpy(words, &f, sizeof words);
#if defined(__aarch64__) || defined(__arm__)
  return (words[1] & 1) != 0;
#else
  return (words[0] & 1) != 0;
#endif
}

template <class F>
struct OwnerOf {
  using type = void;
};
template <class R, class C, class... A>
struct OwnerOf<R (C::*)(A...) const> {
  using type = C;
};
template <class R, class C, class... A>
struct OwnerOf<R (C::*)(A...) const noexcept> {
  using type = C;
};

// throws: kInvalidArgument if F is a virtual function and the object is of a class derived from F's
// class: the value would come from an override, and the derivative from F.
template <auto F, class Object, class... X>
void require_no_override(const Object& object, const X&...) {
  using Owner = typename OwnerOf<decltype(F)>::type;
  if constexpr (std::is_polymorphic_v<Owner> && std::is_base_of_v<Owner, Object>) {
    if (typeid(object) == typeid(Owner) || !is_virtual(F)) return;
    throw Error(ErrorCode::kInvalidArgument,
                "differentiable: the rule is that of a virtual function of '" +
                    std::string(type_name<Owner>()) +
                    "', but the object is of a derived class, whose function may be another one. "
                    "Name the function of the object's own class, or call a virtual function that "
                    "calls differentiable<> on its own");
  }
}

}  // namespace internal
}  // namespace etude
