// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/halves.h"

#include "etude/core/internal/convert.h"

#define ISA_NAMESPACE etude::kernels::cpu
#define ISA_PRELUDE "etude/kernels/cpu/simd/vec.inc"
#define ISA_SOURCE "etude/kernels/cpu/halves.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu {

template <class T>
const HalfRows<T>& half_rows(etude::internal::Isa isa) {
  return ETUDE_OF_ISA(isa, etude::kernels::cpu, kHalfRows<T>);
}
template const HalfRows<Float16>& half_rows(etude::internal::Isa);
template const HalfRows<BFloat16>& half_rows(etude::internal::Isa);

void convert_row(void* out, DType out_dtype, const void* in, DType in_dtype, int64_t n) {
  const auto widen = [&]<class T>() {
    widen_row(static_cast<float*>(out), static_cast<const T*>(in), n);
  };
  const auto narrow = [&]<class T>() {
    narrow_row(static_cast<T*>(out), static_cast<const float*>(in), n);
  };
  if (out_dtype == kFloat32 && in_dtype == kFloat16) return widen.template operator()<Float16>();
  if (out_dtype == kFloat32 && in_dtype == kBFloat16) return widen.template operator()<BFloat16>();
  if (in_dtype == kFloat32 && out_dtype == kFloat16) return narrow.template operator()<Float16>();
  if (in_dtype == kFloat32 && out_dtype == kBFloat16) return narrow.template operator()<BFloat16>();
  etude::internal::convert_elements(out, out_dtype, in, in_dtype, n);
}

}  // namespace etude::kernels::cpu
