// SPDX-License-Identifier: Apache-2.0
// A borrowed callable: two words, no allocation. For parameters called before the function returns
// (parallel loops, visitors). Do not store it.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

template <class Signature>
class FunctionRef;

template <class R, class... A>
class FunctionRef<R(A...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
           std::is_invocable_r_v<R, F&, A...>) FunctionRef(F&& f)
  noexcept
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, A... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<A>(args)...);
        }) {}

  R operator()(A... args) const { return call_(object_, std::forward<A>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, A...);
};

}  // namespace internal
}  // namespace etude
