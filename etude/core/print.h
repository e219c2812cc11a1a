// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The elements of a tensor as they are printed: "[1., 2.]", long ones with dots. Names what has
// none: "<absent>".
std::string elements_text(const Tensor& x);

}  // namespace internal
}  // namespace etude
