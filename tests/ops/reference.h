// SPDX-License-Identifier: Apache-2.0
// Scalar programs once more, as plainly as possible: one element at a time, in double, complex
// double or whole numbers, by the standard library. The reference for element-wise ops.
#pragma once

#include <complex>
#include <string>
#include <vector>

#include "etude/core/op/op.h"
#include "etude/core/tensor.h"

namespace etude::matrix {

// The program on broadcast operands; numbers of whole dtypes are exact in the real part up to 2^53,
// beyond that compare `integers`.
struct Expected {
  std::vector<std::complex<double>> values;
  std::vector<int64_t> integers;  // for integer results, the bits
};
Expected evaluate(const scalar::Program& program, const std::vector<Tensor>& operands,
                  const std::vector<double>& params, const Shape& result);

// "" if `got` is as expected: real results within `ulp` units in the last place of their dtype;
// else where they differ and how.
std::string compare(const Tensor& got, const Expected& want, double ulp);

}  // namespace etude::matrix
