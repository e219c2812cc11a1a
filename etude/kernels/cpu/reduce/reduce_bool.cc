// SPDX-License-Identifier: Apache-2.0
#include <complex>

#include "etude/kernels/cpu/reduce/reduce_loops.h"

namespace etude::kernels::cpu::internal {
namespace {

template <class T>
bool is_true(const T& x) {
  return x != T(0.0f);
}
template <>
bool is_true(const bool& x) {
  return x;
}

template <class T, bool kAll>
struct Bools {
  using In = T;
  using Acc = uint8_t;
  static Acc identity() { return kAll; }
  static Acc empty() { return kAll; }
  static Acc load(const T& x) { return is_true(x); }
  static Acc fold(Acc x, Acc y) { return static_cast<Acc>(kAll ? x & y : x | y); }
};

// The first pass counts nonzero elements; later passes add counts.
template <class T, bool kIsFirst>
struct Count {
  using In = T;
  using Acc = int64_t;
  static Acc identity() { return 0; }
  static Acc empty() { return 0; }
  static Acc load(const T& x) {
    if constexpr (kIsFirst)
      return is_true(x);
    else
      return x;
  }
  static Acc fold(Acc x, Acc y) { return x + y; }
};

template <class T>
ReduceLoops loops_of(Reduce reduce) {
  if (reduce == Reduce::kAll) return plain_loops<Bools<T, true>>();
  if (reduce == Reduce::kAny) return plain_loops<Bools<T, false>>();
  return plain_loops<Count<T, true>>();
}

}  // namespace

ReduceLoops bool_loops(Reduce reduce, DType dtype, bool is_first) {
  if (is_first) return visit_dtype(dtype, [&]<class T>() { return loops_of<T>(reduce); });
  if (reduce == Reduce::kCountNonzero) return plain_loops<Count<int64_t, false>>();
  return loops_of<bool>(reduce);
}

}  // namespace etude::kernels::cpu::internal
