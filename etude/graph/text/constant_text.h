// SPDX-License-Identifier: Apache-2.0
// The elements of constants in the text of graphs.
#pragma once

#include <string>

#include "etude/core/tensor.h"

namespace etude::internal {

// One element, exact.
std::string element_text(const Tensor& value, int64_t i);

// Prints the elements exactly: up to 16 elements one by one, "[[1, 2], [3, nan]]", more elements as
// their bytes in memory, "hex 0000803f00000040...". With `elide` only the first few are printed:
// "0.5, 2, -1, ...".
std::string constant_text(const Tensor& value, bool elide);

// Parses the output of constant_text() without `elide` and moves `at` past it. On an error `fault`
// is the message, `at` is its position, and the result is absent.
// cost: memory for the elements in the text, regardless of `type`.
Tensor read_constant(const char*& at, const char* end, const Type* type, std::string& fault);

}  // namespace etude::internal
