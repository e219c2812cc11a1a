// SPDX-License-Identifier: Apache-2.0
// Reductions of the half types: rows are widened a part at a time, and the loops of float32 go over
// the parts. The tree of reduce.h stays, and so do the bits.
#include <algorithm>

#include "etude/kernels/cpu/halves.h"
#include "etude/kernels/cpu/reduce/reduce.h"

namespace etude::kernels::cpu::internal {
namespace {

constexpr int64_t kGroup = 4;  // rows that the tree adds together
constexpr int64_t kPart = kReduceBlock / kGroup;

template <Reduce kReduce>
const ReduceLoops& float_loops() {
  static const ReduceLoops loops = [] {
    ReduceLoops made = arithmetic_loops(kReduce, kFloat32, true);
    use_vector_loops(kReduce, made);
    return made;
  }();
  return loops;
}

template <class T, Reduce kReduce>
struct HalfLoops {
  static void block(void* acc, const void* in, int64_t n) {
    alignas(64) float wide[kReduceBlock];
    widen_row(wide, static_cast<const T*>(in), n);
    float_loops<kReduce>().block(acc, wide, n);
  }

  // Whole rows of at most kShortRow elements lie in a part.
  static void short_rows(void* acc, const void* in, int64_t rows, int64_t n) {
    const int64_t most = n == 0 ? rows : kReduceBlock / n;
    for (int64_t row = 0; row < rows; row += most) {
      const int64_t count = std::min(most, rows - row);
      alignas(64) float wide[kReduceBlock];
      widen_row(wide, static_cast<const T*>(in) + row * n, count * n);
      float_loops<kReduce>().short_rows(static_cast<float*>(acc) + row, wide, count, n);
    }
  }

  static void columns(void* acc, const void* in, int64_t rows, int64_t stride, int64_t width) {
    for (int64_t j = 0; j < width; j += kPart) {
      strip(static_cast<float*>(acc) + j, static_cast<const T*>(in) + j, rows, stride,
            std::min(kPart, width - j));
    }
  }

  // At most kPart columns. Rows that fill no group are added one by one.
  static void strip(float* acc, const T* in, int64_t rows, int64_t stride, int64_t width) {
    const ReduceLoops& loops = float_loops<kReduce>();
    alignas(64) float wide[kGroup * kPart], sums[kPart];
    loops.columns(acc, in, 0, width, width);  // the identity
    for (int64_t row = 0, count = 0; row < rows; row += count, in += count * stride) {
      count = rows - row >= kGroup ? kGroup : 1;
      for (int64_t r = 0; r < count; ++r) widen_row(wide + r * width, in + r * stride, width);
      loops.columns(sums, wide, count, width, width);
      loops.combine(acc, sums, width);
    }
  }
};

template <class T, Reduce kReduce>
void use_half_loops(ReduceLoops& loops) {
  using L = HalfLoops<T, kReduce>;
  loops.block = L::block;
  loops.short_rows = float_loops<kReduce>().short_rows == nullptr ? nullptr : L::short_rows;
  loops.columns = L::columns;
}

template <class T>
void use_half_loops(Reduce reduce, ReduceLoops& loops) {
  switch (reduce) {
    case Reduce::kProd:
      return use_half_loops<T, Reduce::kProd>(loops);
    case Reduce::kMax:
      return use_half_loops<T, Reduce::kMax>(loops);
    case Reduce::kMin:
      return use_half_loops<T, Reduce::kMin>(loops);
    default:
      return use_half_loops<T, Reduce::kSum>(loops);
  }
}

}  // namespace

void use_widening_loops(Reduce reduce, DType dtype, ReduceLoops& loops) {
  if (dtype == kFloat16) return use_half_loops<Float16>(reduce, loops);
  use_half_loops<BFloat16>(reduce, loops);
}

}  // namespace etude::kernels::cpu::internal
