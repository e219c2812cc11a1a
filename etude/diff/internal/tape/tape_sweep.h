// SPDX-License-Identifier: Apache-2.0
// The reverse pass over recorded calls, last call first: computes the cotangents of operands from
// the cotangents of results. Used by the tape (scalar_tape.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "etude/diff/internal/tape/tape_recorder.h"
#include "etude/diff/scalar_math.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The reverse pass over the calls of [begin, at), the last call first. A call whose result has the
// cotangent 0 is skipped. A partial of 0 propagates 0, even for an infinite cotangent.
template <class T>
void sweep_back(const ScalarCall<T>* begin, const ScalarCall<T>* at, T* cotangents) {
  constexpr uint32_t kAdds = ScalarCall<T>::kAdds;
  using scalar_math::is_exact_zero, scalar_math::strong_product;
  while (at != begin) {
    --at;
    T& target = cotangents[at->target & ~kAdds];
    const T arrived = target;
    if constexpr (std::is_floating_point_v<T>) {
      if (scalar_math::is_plain_factor(arrived)) {
        if ((at->target & kAdds) == 0) target = T(0);
        cotangents[at->operands[0]] += at->partials[0] * arrived;
        if (at->operands[1] != 0) cotangents[at->operands[1]] += at->partials[1] * arrived;
        continue;
      }
    }
    if (is_exact_zero(arrived)) continue;
    if ((at->target & kAdds) == 0) target = T(0);
    cotangents[at->operands[0]] += strong_product(at->partials[0], arrived);
    if (at->operands[1] != 0) {
      cotangents[at->operands[1]] += strong_product(at->partials[1], arrived);
    }
  }
  // If T is a class, g++ 12 at -O2 considers this function free of effects and drops the call. A
  // fence is an effect.
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Adds the slots that the slots in `reached` were computed from by the calls of [begin, at).
template <class T>
void reach_back(const ScalarCall<T>* begin, const ScalarCall<T>* at, std::vector<bool>& reached) {
  constexpr uint32_t kAdds = ScalarCall<T>::kAdds;
  while (at != begin) {
    --at;
    const uint32_t target = at->target & ~kAdds;
    if (!reached[target]) continue;
    if ((at->target & kAdds) == 0) reached[target] = false;
    reached[at->operands[0]] = reached[at->operands[1]] = true;
    reached[0] = false;
  }
}

}  // namespace internal
}  // namespace etude
