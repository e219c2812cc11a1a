// SPDX-License-Identifier: Apache-2.0
// In-place bitwise updates of bools and integers; for += and the other operators see core/tensor.h.
#pragma once

#include "etude/core/call/arg.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Assigns x & y, x | y or x ^ y to x, in place if x is unshared. x keeps its shape and dtype.
// throws: kInvalidArgument for a floating or complex x, and for a y that does not fit into x.
Tensor& operator&=(Tensor& x, const Arg& y);
Tensor& operator|=(Tensor& x, const Arg& y);
Tensor& operator^=(Tensor& x, const Arg& y);

}  // namespace etude
