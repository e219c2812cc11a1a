// SPDX-License-Identifier: Apache-2.0
// The loops on rows, for the instruction set of this machine.
#include <cmath>
#include <limits>
#include <utility>

#include "etude/kernels/cpu/reduce/rows.h"
#include "etude/kernels/cpu/reduce/standardize.h"
#include "etude/kernels/cpu/simd/math_table.h"

#define ISA_NAMESPACE etude::internal
#define ISA_PRELUDE "etude/kernels/cpu/simd/math.inc"
#define ISA_SOURCE "etude/kernels/cpu/simd/row_kernels.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu {
namespace {

using D = double;

D max_of(const D* x, int64_t n) {
  D y = -std::numeric_limits<D>::infinity();
  for (int64_t i = 0; i < n; ++i) y = y != y || y > x[i] ? y : x[i];
  return y;
}

// Sum of f(0) .. f(n - 1) by 64 partials.
template <class F>
D sum_of(int64_t n, const F& f) {
  D partial[64] = {};
  for (int64_t i = 0; i < n; ++i) partial[i % 64] += f(i);
  for (int width = 32; width >= 1; width /= 2) {
    for (int j = 0; j < width; ++j) partial[j] += partial[j + width];
  }
  return partial[0];
}

D exp_sum_of(D* terms, const D* x, int64_t n, D shift) {
  return sum_of(n, [&](int64_t i) {
    const D y = std::exp(x[i] - shift);
    if (terms != nullptr) terms[i] = y;
    return y;
  });
}

D log_of(D x) { return std::log(x); }

void scale(D* y, const D* x, int64_t n, D factor) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

void subtract(D* y, const D* x, int64_t n, D first, D second) {
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - first) - second;
}

D plain_sum(const D* q, int64_t n) {
  return sum_of(n, [&](int64_t i) { return q[i]; });
}

D weigh(const D* q, const D* x, int64_t n, D shift, D rest) {
  return sum_of(n, [&](int64_t i) { return q[i] == 0 ? 0 : q[i] * (rest - (x[i] - shift)); });
}

D dot(const D* x, const D* q, int64_t n) {
  return sum_of(n, [&](int64_t i) { return x[i] * q[i]; });
}

void weigh_difference(D* y, const D* x, const D* q, int64_t n, D shift) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * (q[i] - shift);
}

void blend(D* y, const D* x, const D* q, int64_t n, D a, D b) {
  for (int64_t i = 0; i < n; ++i) y[i] = a * x[i] - b * q[i];
}

constexpr RowMath<double> kDouble = {
    max_of, exp_sum_of, log_of, scale, subtract, plain_sum, weigh, dot, weigh_difference, blend};

}  // namespace

template <>
const RowMath<float>& row_math<float>() {
  return ETUDE_OF_BEST_ISA(etude::internal, kRowMath);
}

const ShortRowMath& short_row_math() { return ETUDE_OF_BEST_ISA(etude::internal, kShortRowMath); }

template <>
const StandardizeMath<float>& standardize_math<float>() {
  return ETUDE_OF_BEST_ISA(etude::internal, kStandardizeMath);
}

template <>
const RowMath<double>& row_math<double>() {
  return kDouble;
}

}  // namespace etude::kernels::cpu
