// SPDX-License-Identifier: Apache-2.0
// Whether two tensors hold the same: every bit, but for which NaN it is.
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <vector>

#include "etude/core/tensor.h"

namespace etude::tests {

// The processor returns the first of two NaN operands, and the compiler chooses their order. So
// sign and payload of a NaN may differ if one function runs several calls.
inline bool same_numbers(const Tensor& a, const Tensor& b) {
  if (same_value(a, b)) return true;
  if (!a.has_value() || !b.has_value() || a.type() != b.type()) return false;
  if (!is_floating(a.dtype()) && !is_complex(a.dtype())) return false;
  const auto x = a.to_vector<std::complex<double>>(), y = b.to_vector<std::complex<double>>();
  const auto same = [](double p, double q) {
    return std::isnan(p) ? std::isnan(q) : p == q && std::signbit(p) == std::signbit(q);
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!same(x[i].real(), y[i].real()) || !same(x[i].imag(), y[i].imag())) return false;
  }
  return true;
}

}  // namespace etude::tests
