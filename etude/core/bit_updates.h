// SPDX-License-Identifier: Apache-2.0
// In-place updates of bools and integers, as += is one of numbers (core/tensor.h).
#pragma once

#include "etude/core/arg.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// x & y, x | y and x ^ y in x, without a copy while nobody shares it; x keeps its shape and dtype.
// throws: kInvalidArgument for a floating or complex x, and for a y that x cannot hold.
Tensor& operator&=(Tensor& x, const Arg& y);
Tensor& operator|=(Tensor& x, const Arg& y);
Tensor& operator^=(Tensor& x, const Arg& y);

}  // namespace etude
