// SPDX-License-Identifier: Apache-2.0
// Conversion of elements between dtypes, with the meaning of the op astype. Used by astype, host
// access and literals.
#pragma once

#include <cstdint>

#include "etude/core/dtype.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// out[i] = in[i] as another dtype. Floats to integers truncate and saturate, NaN gives 0; anything
// to bool is "not zero"; complex to real keeps the real part; integers wrap.
void convert_elements(void* out, DType out_dtype, const void* in, DType in_dtype, int64_t count);

}  // namespace internal
}  // namespace etude
