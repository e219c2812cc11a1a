// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The printed elements of a tensor: "[1., 2.]"; long lists are abbreviated with dots. A tensor
// without elements prints a name such as "<absent>".
std::string elements_text(const Tensor& x);

}  // namespace internal
}  // namespace etude
