// SPDX-License-Identifier: Apache-2.0
// In-place bitwise updates of bools and integers. The other operators, such as +=, are in
// core/tensor.h.
#pragma once

#include "etude/core/call/arg.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Assigns x & y, x | y or x ^ y to x, in place if x is unshared. x keeps its shape and dtype.
// throws: kInvalidArgument for a floating or complex x, or if the dtype or shape of y does not fit
// x.
Tensor& operator&=(Tensor& x, const Arg& y);
Tensor& operator|=(Tensor& x, const Arg& y);
Tensor& operator^=(Tensor& x, const Arg& y);

}  // namespace etude
