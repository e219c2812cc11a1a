// SPDX-License-Identifier: Apache-2.0
// Converts rows of float16 and bfloat16 to float32 and back, with SIMD vectors. All kernels on half
// types use it. It computes the same bits as base/float16.h, which converts single elements,
// including NaN.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "etude/core/dtype.h"
#include "etude/kernels/cpu/simd/math_table.h"

namespace etude::kernels::cpu {

// The loops of one half type T: Float16 or BFloat16. They run on the calling thread; the two arrays
// do not overlap.
template <class T>
struct HalfRows {
  void (*widen)(float* out, const T* in, int64_t n);   // exact
  void (*narrow)(T* out, const float* in, int64_t n);  // to nearest, ties to even
};
// The machine must have the instruction set.
template <class T>
const HalfRows<T>& half_rows(etude::internal::Isa isa);

template <class T>
void widen_row(float* out, const T* in, int64_t n) {
  half_rows<T>(etude::internal::best_isa()).widen(out, in, n);
}
template <class T>
void narrow_row(T* out, const float* in, int64_t n) {
  half_rows<T>(etude::internal::best_isa()).narrow(out, in, n);
}

// Converts rows for a kernel on elements T that computes in C; a plain copy if T is C.
template <class T, class C>
void load_row(C* out, const T* in, int64_t n) {
  if constexpr (std::is_same_v<T, C>)
    std::copy_n(in, n, out);
  else
    widen_row(out, in, n);
}
template <class T, class C>
void store_row(T* out, const C* in, int64_t n) {
  if constexpr (std::is_same_v<T, C>)
    std::copy_n(in, n, out);
  else
    narrow_row(out, in, n);
}

// Does the same as convert_elements of core/internal/convert.h, using the loops above between a
// half type and float32.
void convert_row(void* out, DType out_dtype, const void* in, DType in_dtype, int64_t n);

}  // namespace etude::kernels::cpu
