// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/elementwise/gates.h"

#include <algorithm>
#include <cmath>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/simd/math_table.h"

namespace etude::kernels::cpu::gates {

// One row, from element `at` of the state on: sums, gates and to_sums [4 size], all else [size].
template <class T>
struct GatesRow {
  GatesRow(const KernelCall& call, int64_t at)
      : sums(static_cast<const T*>(call.in[0]) + 4 * at),
        state(static_cast<const T*>(call.in[1]) + at),
        output(static_cast<T*>(call.out[0]) + at),
        next(static_cast<T*>(call.out[1]) + at),
        gates(static_cast<T*>(call.out[2]) + 4 * at) {}
  const T *sums, *state;
  T *output, *next, *gates;
};
template <class T>
struct GatesGradientRow {
  GatesGradientRow(const KernelCall& call, int64_t at)
      : gates(static_cast<const T*>(call.in[0]) + 4 * at),
        state(static_cast<const T*>(call.in[1]) + at),
        next(static_cast<const T*>(call.in[2]) + at),
        by_output(static_cast<const T*>(call.in[3]) + at),
        by_next(static_cast<const T*>(call.in[4]) + at),
        to_sums(static_cast<T*>(call.out[0]) + 4 * at),
        to_state(static_cast<T*>(call.out[1]) + at) {}
  const T *gates, *state, *next, *by_output, *by_next;
  T *to_sums, *to_state;
};

}  // namespace etude::kernels::cpu::gates

#define ISA_NAMESPACE etude::kernels::cpu::gates
#define ISA_PRELUDE "etude/kernels/cpu/simd/math.inc"
#define ISA_SOURCE "etude/kernels/cpu/elementwise/gates.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu {
namespace {

using gates::GatesGradientRow;
using gates::GatesRow;

struct GatesParams : KernelParams {
  int64_t rows = 0, size = 0;
  double forget_bias = 0;
};

struct Code {
  void (*forward)(const GatesRow<float>&, std::size_t, float);
  void (*backward)(const GatesGradientRow<float>&, std::size_t);
};
const Code& code() {
  static const Code chosen{ETUDE_OF_BEST_ISA(gates, gates_row),
                           ETUDE_OF_BEST_ISA(gates, gates_gradient_row)};
  return chosen;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void run_row(const GatesRow<float>& row, std::size_t size, double forget_bias) {
  code().forward(row, size, static_cast<float>(forget_bias));
}
void run_row(const GatesRow<double>& row, std::size_t size, double forget_bias) {
  for (std::size_t k = 0; k < size; ++k) {
    const double i = sigmoid(row.sums[k]), g = std::tanh(row.sums[size + k]);
    const double f = sigmoid(row.sums[2 * size + k] + forget_bias);
    const double o = sigmoid(row.sums[3 * size + k]);
    row.next[k] = f * row.state[k] + i * g;
    row.output[k] = o * std::tanh(row.next[k]);
    row.gates[k] = i, row.gates[size + k] = g;
    row.gates[2 * size + k] = f, row.gates[3 * size + k] = o;
  }
}
void run_row(const GatesGradientRow<float>& row, std::size_t size, double /*forget_bias*/) {
  code().backward(row, size);
}
void run_row(const GatesGradientRow<double>& row, std::size_t size, double /*forget_bias*/) {
  for (std::size_t k = 0; k < size; ++k) {
    const double i = row.gates[k], g = row.gates[size + k];
    const double f = row.gates[2 * size + k], o = row.gates[3 * size + k];
    const double t = std::tanh(row.next[k]), by_output = row.by_output[k];
    const double by_next = row.by_next[k] + by_output * o * (1 - t * t);
    row.to_sums[k] = by_next * g * (i * (1 - i));
    row.to_sums[size + k] = by_next * i * (1 - g * g);
    row.to_sums[2 * size + k] = by_next * row.state[k] * (f * (1 - f));
    row.to_sums[3 * size + k] = by_output * t * (o * (1 - o));
    row.to_state[k] = by_next * f;
  }
}

template <class Row>
bool run_gates(const KernelCall& call) {
  constexpr double kUsPerElement = 3e-3;
  const auto& p = *static_cast<const GatesParams*>(call.params);
  const int64_t step = std::max<int64_t>(1, (1 << 13) / std::max<int64_t>(1, p.size));
  const double us = static_cast<double>(p.rows * p.size) * kUsPerElement;
  parallel_for((p.rows + step - 1) / step, us, [&](int64_t chunk) {
    const int64_t end = std::min(p.rows, (chunk + 1) * step);
    for (int64_t r = chunk * step; r < end; ++r) {
      run_row(Row(call, r * p.size), static_cast<std::size_t>(p.size), p.forget_bias);
    }
  });
  return true;
}

template <template <class> class Row>
void prepare(const PrepareCall& call, double forget_bias) {
  auto p = etude::internal::make_ref<GatesParams>();
  const Shape& state = call.shape(1);
  p->size = state[state.rank() - 1];
  p->rows = p->size == 0 ? 0 : state.count() / p->size;
  p->forget_bias = forget_bias;
  call.set(call.dtype(0) == kFloat64 ? run_gates<Row<double>> : run_gates<Row<float>>, p);
}

}  // namespace

void prepare_lstm_gates(const PrepareCall& call, double forget_bias) {
  prepare<GatesRow>(call, forget_bias);
}
void prepare_lstm_gates_gradient(const PrepareCall& call) { prepare<GatesGradientRow>(call, 0); }

}  // namespace etude::kernels::cpu
