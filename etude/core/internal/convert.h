// SPDX-License-Identifier: Apache-2.0
// Conversion of elements between dtypes, with the semantics of the op astype. Used by astype, host
// access and literals.
#pragma once

#include <cstdint>

#include "etude/core/dtype.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// out[i] = in[i] as another dtype. Floats to integers truncate and saturate, and NaN becomes 0.
// Conversion to bool is "not zero". Complex to real keeps the real part. Integers wrap.
void convert_elements(void* out, DType out_dtype, const void* in, DType in_dtype, int64_t count);

}  // namespace internal
}  // namespace etude
