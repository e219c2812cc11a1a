// SPDX-License-Identifier: Apache-2.0
// Standardises rows or columns of a matrix to mean 0 and variance 1, then scales and shifts them;
// also computes the gradient of this. It takes one pass over memory for the statistics and another
// pass for the result. Layer, batch and group normalisation use it.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// Loops of the kernels, on a chunk of `rows` rows of n elements. T: float (vectors, the same bits
// on every instruction set) or double.
template <class T>
struct StandardizeMath {
  // Per column: the mean, and the sum of squares about it.
  void (*moments)(const T* x, int64_t rows, int64_t n, T* mean, T* squares);
  // y = (x - mean) * factor + offset, each per column. y may be x.
  void (*apply)(T* y, const T* x, int64_t rows, int64_t n, const T* mean, const T* factor,
                const T* offset);
  // As moments; and per column the sums of ct and of ct * (x - mean).
  void (*products)(const T* x, const T* ct, int64_t rows, int64_t n, T* mean, T* squares, T* sum,
                   T* product);
  // dx = a * ct - (b + c * (x - mean)), each per column. dx may be x or ct.
  void (*gradient)(T* dx, const T* x, const T* ct, int64_t rows, int64_t n, const T* mean,
                   const T* a, const T* b, const T* c);
  // One row: y = (x - mean) / sqrt(variance + epsilon) * scale + offset; scale and offset may be
  // null.
  void (*row_by)(T* y, const T* x, int64_t n, const T* scale, const T* offset, T epsilon, T mean,
                 T variance);
  // The same, but computes and returns the mean and the variance of the row.
  void (*row)(T* y, const T* x, int64_t n, const T* scale, const T* offset, T epsilon, T* mean,
              T* variance);
  // The gradient of one row; adds to the gradients of scale and offset.
  void (*row_gradient)(T* dx, const T* x, const T* ct, int64_t n, const T* scale, T epsilon,
                       T* to_scale, T* to_offset);
};
template <class T>
const StandardizeMath<T>& standardize_math();
template <>
const StandardizeMath<float>& standardize_math<float>();
template <>
const StandardizeMath<double>& standardize_math<double>();

// Operands x [rows, n], scale? [n], offset? [n]; results y, mean, variance. Attributes: `columns`
// (whether columns or rows are standardised) and `epsilon`.
void prepare_standardize(const PrepareCall& call);
// Operands x, scale?, offset?, mean, variance; result y, as for standardize. Only for float and
// double: for these standardize returns the statistics unrounded.
void prepare_standardize_by(const PrepareCall& call);
// Operands x, scale?, ct; results dx and the gradients of scale and offset.
void prepare_standardize_gradient(const PrepareCall& call);

// Operands x [examples, rows, n], scale? [n], offset? [n]; result y. Each example has separate
// statistics for each of `groups` groups of adjacent columns; `groups` and `epsilon` are
// attributes.
void prepare_standardize_groups(const PrepareCall& call);
// Operands x, scale?, ct; results dx and the gradients of scale and offset.
void prepare_standardize_groups_gradient(const PrepareCall& call);

}  // namespace etude::kernels::cpu
