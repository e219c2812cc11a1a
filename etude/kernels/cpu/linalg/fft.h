// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms along an axis. Lengths whose primes are small are mixed radices 4, 2,
// 3, 5 and others (Stockham's form, which needs no reordering); other lengths go by Bluestein's
// convolution. Long ones are two passes over a matrix, so that each stays in a cache. Used by
// ops/linalg/fourier.cc.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

struct FourierOptions {
  int axis = 0;
  bool inverse = false;  // the exponent has a plus
  int divides = 0;       // the result is divided by: 0 nothing, 1 the length, 2 its root
  // Of a half spectrum, whether what stands for two elements counts twice: the adjoint of a
  // transform to or from real numbers is another such transform, with the other choice.
  bool doubles = false;
};

// complex -> complex of the same shape.
void prepare_fourier(const PrepareCall& call, const FourierOptions& options);
// real [.., n, ..] -> complex [.., n / 2 + 1, ..].
void prepare_fourier_of_real(const PrepareCall& call, const FourierOptions& options);
// complex [.., n / 2 + 1, ..] -> real [.., n, ..], where n is the size of the result; imaginary
// parts that a spectrum of real numbers does not have are not read.
void prepare_fourier_to_real(const PrepareCall& call, const FourierOptions& options);

// x with another size along an axis: cut at its end, or with zeros behind. Any dtype.
void prepare_fit(const PrepareCall& call, int axis);

}  // namespace etude::kernels::cpu
