// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms along an axis. Lengths with small prime factors use radices 4, 2, 3,
// 5 and others in Stockham's form, which needs no reordering. Other lengths use Bluestein's
// convolution. Long transforms are two passes over a matrix, so that each fits a cache. Used by
// ops/linalg/fourier.cc.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

struct FourierOptions {
  int axis = 0;
  bool inverse = false;  // positive exponent
  int divides = 0;       // divisor of the result: 0: none, 1: the length, 2: its root
  // For a half spectrum: whether an element that represents two elements of the full spectrum
  // counts twice. The adjoint of a transform to or from real numbers is another such transform with
  // the opposite setting.
  bool doubles = false;
};

// complex -> complex of the same shape.
void prepare_fourier(const PrepareCall& call, const FourierOptions& options);
// real [.., n, ..] -> complex [.., n / 2 + 1, ..].
void prepare_fourier_of_real(const PrepareCall& call, const FourierOptions& options);
// complex [.., n / 2 + 1, ..] -> real [.., n, ..], where n is the size of the result. Some
// imaginary parts are 0 in every spectrum of real numbers; the kernel does not read them.
void prepare_fourier_to_real(const PrepareCall& call, const FourierOptions& options);

// x resized along an axis: truncated, or padded with zeros at the end. Any dtype.
void prepare_fit(const PrepareCall& call, int axis);

}  // namespace etude::kernels::cpu
