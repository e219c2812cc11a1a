// SPDX-License-Identifier: Apache-2.0
// The content of a record as text, for `etude ops show` and for the reference pages.
#pragma once

#include <string>
#include <vector>

#include "etude/core/op/op.h"

namespace etude::tools {

// "element-wise", "linear", "composition", "general".
std::string kind_name(Kind kind);
// "matmul(x, y, transpose_x=false, transpose_y=false) -> y".
std::string signature(const Op& op);
// "x: float32, float64", one line per operand.
std::vector<std::string> operand_lines(const Op& op);
// "axis: integers, default none", one line per attribute.
std::vector<std::string> attr_lines(const Op& op);
// "y = exp(x1)" and "t1 -> multiply(x2, x1)" of element-wise ops.
std::vector<std::string> program_lines(const Op& op);
// "x1: x2" for each differentiable operand: the values that its gradient keeps.
std::vector<std::string> residual_lines(const Op& op);
std::vector<std::string> sample_lines(const Op& op);
std::vector<std::string> error_lines(const Op& op);

}  // namespace etude::tools
