// SPDX-License-Identifier: Apache-2.0
// Further names of activations in etude::nn. The others are ops of this namespace, such as
// nn::relu.
#pragma once

#include "etude/core/call/arg.h"
#include "etude/ops.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

using etude::tanh;
// x sigmoid(x): another name of silu.
inline Tensor swish(const Arg& x) { return silu(x); }

}  // namespace nn
}  // namespace etude
