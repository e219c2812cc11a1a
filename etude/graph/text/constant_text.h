// SPDX-License-Identifier: Apache-2.0
// The elements of constants in texts of graphs.
#pragma once

#include <string>

#include "etude/core/tensor.h"

namespace etude::internal {

// One element, exact.
std::string element_text(const Tensor& value, int64_t i);

// Exact: up to 16 elements one by one, "[[1, 2], [3, nan]]", more of them by their bytes in memory,
// "hex 0000803f00000040...". With `elide` these are but the first few: "0.5, 2, -1, ...".
std::string constant_text(const Tensor& value, bool elide);

// Reads what constant_text() wrote without `elide` and moves `at` behind it. `fault` says what is
// wrong, where `at` then is; the result is absent in that case.
// cost: memory for the elements that are there, whatever `type` says.
Tensor read_constant(const char*& at, const char* end, const Type* type, std::string& fault);

}  // namespace etude::internal
