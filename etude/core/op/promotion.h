// SPDX-License-Identifier: Apache-2.0
// The common dtype of operands of different dtypes in one call. Used by calls, in-place updates and
// result_type.
#pragma once

#include <optional>

#include "etude/core/dtype.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Returns the common dtype of a and b on this thread: promote() within a kind, else the dtype of
// the higher kind (bool, then integers, then floats and complex numbers). Empty for uint64 with a
// signed integer. Under Promotion::kStrict also empty for different kinds, unless the op casts
// integers.
std::optional<DType> meeting_dtype(DType a, DType b, bool casts_integers = false);

// The dtype of a call on tensors of `dtype` and a host number that is not a bool. A real number
// promotes bools and integers to the default dtype. An integer promotes bools to int32. Under
// Promotion::kStrict the number adapts, or is refused.
DType dtype_with_number(DType dtype, bool is_real);

// The dtype of an operand of an op that casts integers: the default dtype for integers and, unless
// Promotion::kStrict refuses them, bools. Other dtypes are unchanged.
DType floating_for(DType dtype);

// Prepares `value` for a write into a tensor of `dtype`: casts it to `dtype` if that is their
// common dtype, else returns it unchanged.
Tensor for_target(const Tensor& value, DType dtype, CallSite where);

}  // namespace internal
}  // namespace etude
