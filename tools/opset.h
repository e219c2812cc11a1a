// SPDX-License-Identifier: Apache-2.0
// docs/opset.txt: the op set as files see it, one line an op. tools/check_opset.py compares it with
// an earlier one.
#pragma once

#include <string>
#include <vector>

#include "etude/core/op/op.h"

namespace etude::tools {

//   nn.leaky_relu v1 (x) {slope: real = 0.2} -> y; float16, bfloat16, float32, float64
//
// Operands: "bias?" may be absent, "xs..." is any number of operands; dtypes follow an operand that
// has its own. Attributes have a kind and a default; "none" is absent. After the semicolon are the
// dtypes that the other operands share, and the properties of the op in words.
std::string opset_line(const Op& op);

// The whole file: a comment and a line for each op, in the order of names.
std::string opset_text(std::vector<const Op*> ops);

}  // namespace etude::tools
