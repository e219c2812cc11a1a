// SPDX-License-Identifier: Apache-2.0
// The few ops that the core and the contexts themselves call, as functions. Everything else is
// called through etude/ops.h, by users and by op records.
#pragma once

#include "etude/core/context.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// x as another dtype (op astype).
Tensor cast(const Tensor& x, DType dtype, CallSite where = {});
// x + y; `x` may be overwritten if it is not shared (op add).
Tensor add(Tensor&& x, const Tensor& y, CallSite where = {});
// Sum over the axes that broadcasting added (op sum_to); x itself if there are none.
Tensor sum_to(const Tensor& x, const Shape& shape, CallSite where = {});
// Tensors of one value (op full).
Tensor full(const Type* type, double value, CallSite where = {});
// x with its imaginary part negated (op conj); x itself for real dtypes.
Tensor conj(const Tensor& x, CallSite where = {});
// The attributes of a program without numeric attributes, for the op fused_elementwise.
Attrs program_attrs(const ScalarDef& def);
// A program on operands, with its numeric attributes (op fused_elementwise).
Tensor run_program(const ScalarDef& def, Operands operands, const std::vector<double>& params,
                   CallSite where = {});

}  // namespace internal
}  // namespace etude
