// SPDX-License-Identifier: Apache-2.0
#include <complex>

#include "etude/kernels/cpu/reduce/reduce_loops.h"
#include "etude/kernels/cpu/wide.h"

namespace etude::kernels::cpu::internal {
namespace {

template <class T, class A>
struct Sum {
  using In = T;
  using Acc = A;
  static Acc identity() {
    if constexpr (kIsComplex<A>)
      return A(-0.0, -0.0);
    else if constexpr (std::is_floating_point_v<A>)
      return -A(0);  // -0.0 + x is x, also for -0.0
    else
      return A(0);
  }
  static Acc empty() { return A(0); }
  static Acc load(const T& x) { return static_cast<A>(x); }
  static Acc fold(const A& x, const A& y) { return add(x, y); }
};

template <class T, class A>
struct Product {
  using In = T;
  using Acc = A;
  static Acc identity() { return A(1); }
  static Acc empty() { return A(1); }
  static Acc load(const T& x) { return static_cast<A>(x); }
  static Acc fold(const A& x, const A& y) { return multiply(x, y); }
};

template <class T, class A, bool kLargest>
struct Extreme {
  using In = T;
  using Acc = A;
  static Acc identity() {
    using L = std::numeric_limits<A>;
    if constexpr (L::has_infinity)
      return kLargest ? -L::infinity() : L::infinity();
    else
      return kLargest ? L::lowest() : L::max();
  }
  static Acc empty() { return identity(); }
  static Acc load(const T& x) { return static_cast<A>(x); }
  static Acc fold(A x, A y) {
    if (x != x) return x;  // NaN
    return (kLargest ? x > y : x < y) ? x : y;
  }
};

template <class T, class A>
ReduceLoops loops_of(Reduce reduce) {
  switch (reduce) {
    case Reduce::kProd:
      return plain_loops<Product<T, A>>();
    case Reduce::kMax:
      if constexpr (!kIsComplex<A>) return plain_loops<Extreme<T, A, true>>();
      break;
    case Reduce::kMin:
      if constexpr (!kIsComplex<A>) return plain_loops<Extreme<T, A, false>>();
      break;
    default:
      break;
  }
  return plain_loops<Sum<T, A>>();
}

}  // namespace

ReduceLoops arithmetic_loops(Reduce reduce, DType dtype, bool is_first) {
  return visit_dtype(dtype, [&]<class T>() -> ReduceLoops {
    if constexpr (std::is_same_v<T, bool>) {  // counted
      return is_first ? loops_of<bool, int32_t>(reduce) : loops_of<int32_t, int32_t>(reduce);
    } else {
      // The largest of integers keeps its dtype.
      if constexpr (std::is_integral_v<T>) {
        const bool is_extreme = reduce == Reduce::kMax || reduce == Reduce::kMin;
        if (is_extreme) return loops_of<T, T>(reduce);
      }
      // Later passes go over accumulators of the first.
      const ReduceLoops loops =
          is_first ? loops_of<T, Wide<T>>(reduce) : loops_of<Wide<T>, Wide<T>>(reduce);
      return loops;
    }
  });
}

}  // namespace etude::kernels::cpu::internal
