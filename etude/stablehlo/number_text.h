// SPDX-License-Identifier: Apache-2.0
// Numbers as MLIR reads them: every text is the same bits again.
#pragma once

#include <cstdint>
#include <string>

#include "etude/core/dtype.h"

namespace etude::stablehlo::internal {

// The text of one element: "0.1", "0x7F800000" for infinities and NaN, "-3", "true", "(1.0,0.0)".
std::string number_text(const uint8_t* element, DType dtype);

}  // namespace etude::stablehlo::internal
