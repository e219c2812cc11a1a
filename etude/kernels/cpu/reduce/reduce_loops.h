// SPDX-License-Identifier: Apache-2.0
// The plain loops of reductions for any dtype, with the tree of reduce.h. Used by
// reduce_arithmetic.cc and reduce_bool.cc.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "etude/kernels/cpu/reduce/reduce.h"

namespace etude::kernels::cpu::internal {

// F defines In, Acc, identity(), empty() (the reduction of no elements), load(In) and fold(Acc,
// Acc).
template <class F>
struct PlainLoops {
  using In = typename F::In;
  using Acc = typename F::Acc;

  static void block(void* acc, const void* in, int64_t n) {
    const In* p = static_cast<const In*>(in);
    std::array<Acc, 64> partial;
    partial.fill(F::identity());
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
      for (std::size_t j = 0; j < 64; ++j)
        partial[j] = F::fold(partial[j], F::load(p[i + static_cast<int64_t>(j)]));
    }
    for (std::size_t j = 0; i < n; ++i, ++j) partial[j] = F::fold(partial[j], F::load(p[i]));
    for (std::size_t width = n <= 16 ? 8 : 32; width >= 1; width /= 2) {
      for (std::size_t j = 0; j < width; ++j) partial[j] = F::fold(partial[j], partial[j + width]);
    }
    *static_cast<Acc*>(acc) = partial[0];
  }

  static void columns(void* acc, const void* in, int64_t rows, int64_t stride, int64_t width) {
    Acc* to = static_cast<Acc*>(acc);
    const In* p = static_cast<const In*>(in);
    std::fill_n(to, width, F::identity());
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4, p += 4 * stride) {
      for (int64_t j = 0; j < width; ++j) {
        const In* q = p + j;
        const Acc low = F::fold(F::load(q[0]), F::load(q[stride]));
        const Acc high = F::fold(F::load(q[2 * stride]), F::load(q[3 * stride]));
        to[j] = F::fold(to[j], F::fold(low, high));
      }
    }
    for (; row < rows; ++row, p += stride) {
      for (int64_t j = 0; j < width; ++j) to[j] = F::fold(to[j], F::load(p[j]));
    }
  }

  static void combine(void* a, const void* b, int64_t n) {
    Acc* x = static_cast<Acc*>(a);
    const Acc* y = static_cast<const Acc*>(b);
    for (int64_t i = 0; i < n; ++i) x[i] = F::fold(x[i], y[i]);
  }

  static void clear(void* acc, int64_t n) { std::fill_n(static_cast<Acc*>(acc), n, F::empty()); }
};

template <class F>
ReduceLoops plain_loops() {
  using L = PlainLoops<F>;
  ReduceLoops out;
  out.in_bytes = sizeof(typename F::In);
  out.acc_bytes = sizeof(typename F::Acc);
  out.block = L::block;
  out.columns = L::columns;
  out.combine = L::combine;
  out.clear = L::clear;
  return out;
}

}  // namespace etude::kernels::cpu::internal
