// SPDX-License-Identifier: Apache-2.0
// In which dtype operands of several dtypes meet in one call. Calls, in-place updates and
// result_type ask here.
#pragma once

#include <optional>

#include "etude/core/dtype.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The dtype in which values of both dtypes meet on this thread: that of promote() within a kind;
// else that of the higher kind, bool before integers before floats and complex numbers. None for
// uint64 with a signed integer; across kinds none under Promotion::kStrict, but in an op that casts
// integers.
std::optional<DType> meeting_dtype(DType a, DType b, bool casts_integers = false);

// The dtype of a call of tensors of `dtype` with a host number that is no bool. A real number takes
// truths and integers to the default dtype, an integer takes truths to int32; under
// Promotion::kStrict the number adapts, or is refused.
DType dtype_with_number(DType dtype, bool is_real);

// What an op that casts integers makes of them, and of truths unless Promotion::kStrict refuses
// that: the default dtype. Other dtypes stay.
DType floating_for(DType dtype);

// `value` as it is written into a tensor of `dtype`, which keeps its dtype: cast if the two meet
// there, else as it is.
Tensor for_target(const Tensor& value, DType dtype, CallSite where);

}  // namespace internal
}  // namespace etude
