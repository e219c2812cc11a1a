// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layers/cells.h"

#include <utility>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/run.h"
#include "etude/nn/layers/convolution.h"
#include "etude/ops.h"

namespace etude::nn {
namespace {

// A weight whose first rows are for the input and whose last are for the state.
Tensor joint_weight(int64_t input, int64_t hidden, int64_t columns, const Initializer& of_input,
                    const Initializer& of_state) {
  ETUDE_REQUIRE(input >= 1 && hidden >= 1,
                "{} inputs and {} hidden numbers; both must be at least 1", input, hidden);
  return concat({of_input({input, columns}), of_state({hidden, columns})});
}

void require_state(const Tensor& state, const Tensor& inputs, int64_t hidden,
                   const Tensor& weight) {
  const int last = state.rank() - 1;
  ETUDE_REQUIRE(state.rank() == inputs.rank() && state.shape()[last] == hidden,
                "the state has shape {}, but the layer needs {} axes, the last of size {} (its "
                "weight has shape {})",
                state.shape().to_string(), inputs.rank(), hidden, weight.shape().to_string());
}

Tensor rows(const Tensor& weight, int64_t begin, int64_t end) {
  return slice(weight, {begin}, {end});
}

// x times the first rows of a joint weight, plus bias.
Tensor joint_inputs(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t hidden) {
  const int64_t input = weight.shape()[0] - hidden;
  internal::require_input(x, -2, input, weight, "weight");
  return matmul(x, rows(weight, 0, input)) + bias;
}

Tensor last_rows(const Tensor& weight, int64_t hidden) {
  return rows(weight, weight.shape()[0] - hidden, weight.shape()[0]);
}

Tensor zero_rows(int64_t n, int64_t hidden, DType dtype) {
  return etude::internal::full(intern_type(dtype, {n, hidden}), 0);
}

// The next state from the sums of all gates: in one pass, except for half types and for a state
// that broadcasts or has another dtype.
LSTMState gated(const Tensor& all, const Tensor& was, double forget_bias) {
  Shape sums = was.shape();
  sums.set(sums.rank() - 1, all.shape()[all.rank() - 1]);
  const bool is_wide = all.dtype() == kFloat32 || all.dtype() == kFloat64;
  if (is_wide && was.dtype() == all.dtype() && sums == all.shape()) {
    Values y =
        etude::internal::run_all(etude::internal::op<"lstm_gates">(), {&all, &was}, {forget_bias});
    return {std::move(y[0]), std::move(y[1])};
  }
  const std::vector<Tensor> gates = split(all, 4, {.axis = -1});
  const Tensor forget = forget_bias != 0 ? gates[2] + forget_bias : gates[2];
  const Tensor c = sigmoid(forget) * was + sigmoid(gates[0]) * etude::tanh(gates[1]);
  return {sigmoid(gates[3]) * etude::tanh(c), c};
}

}  // namespace

SimpleRNNCell::SimpleRNNCell(int64_t input, int64_t hidden, const CellOptions& options,
                             CallSite where) {
  etude::internal::located("SimpleRNNCell", where, [&] {
    weight = joint_weight(input, hidden, hidden, options.weight_init, options.recurrent_init);
    bias = options.bias_init({hidden});
  });
}
Tensor SimpleRNNCell::zero_state(int64_t n, DType dtype) const {
  return zero_rows(n, weight.shape()[1], dtype);
}
Tensor SimpleRNNCell::inputs(const Tensor& x) const {
  return joint_inputs(x, weight, bias, weight.shape()[1]);
}
Tensor SimpleRNNCell::state_weight() const { return last_rows(weight, weight.shape()[1]); }
Tensor SimpleRNNCell::step(const Tensor& inputs, const Tensor& state,
                           const Tensor& state_weight) const {
  require_state(state, inputs, weight.shape()[1], weight);
  return etude::tanh(inputs + matmul(state, state_weight));
}
Tensor SimpleRNNCell::operator()(const Tensor& x, const Tensor& state, CallSite where) const {
  return internal::run_layer(this, "SimpleRNNCell", where, 2 * weight.shape()[0],
                             [&] { return step(inputs(x), state); });
}

LSTMCell::LSTMCell(int64_t input, int64_t hidden, const LSTMCellOptions& options, CallSite where)
    : forget_bias_(options.forget_bias) {
  etude::internal::located("LSTMCell", where, [&] {
    weight = joint_weight(input, hidden, 4 * hidden, options.weight_init, options.recurrent_init);
    bias = options.bias_init({4 * hidden});
  });
}
LSTMState LSTMCell::zero_state(int64_t n, DType dtype) const {
  const Tensor zero = zero_rows(n, weight.shape()[1] / 4, dtype);
  return {zero, zero};
}
Tensor LSTMCell::inputs(const Tensor& x) const {
  return joint_inputs(x, weight, bias, weight.shape()[1] / 4);
}
Tensor LSTMCell::state_weight() const { return last_rows(weight, weight.shape()[1] / 4); }
LSTMState LSTMCell::step(const Tensor& inputs, const LSTMState& state,
                         const Tensor& state_weight) const {
  const int64_t hidden = weight.shape()[1] / 4;
  require_state(state.h, inputs, hidden, weight);
  require_state(state.c, inputs, hidden, weight);
  return gated(inputs + matmul(state.h, state_weight), state.c, forget_bias_);
}
LSTMState LSTMCell::operator()(const Tensor& x, const LSTMState& state, CallSite where) const {
  return internal::run_layer(this, "LSTMCell", where, 8 * weight.shape()[0],
                             [&] { return step(inputs(x), state); });
}

GRUCell::GRUCell(int64_t input, int64_t hidden, const CellOptions& options, CallSite where) {
  etude::internal::located("GRUCell", where, [&] {
    ETUDE_REQUIRE(input >= 1 && hidden >= 1,
                  "{} inputs and {} hidden numbers; both must be at least 1", input, hidden);
    weight = options.weight_init({input, 3 * hidden});
    recurrent = options.recurrent_init({hidden, 3 * hidden});
    bias = options.bias_init({3 * hidden});
    recurrent_bias = options.bias_init({3 * hidden});
  });
}
Tensor GRUCell::zero_state(int64_t n, DType dtype) const {
  return zero_rows(n, recurrent.shape()[0], dtype);
}
Tensor GRUCell::inputs(const Tensor& x) const {
  internal::require_input(x, -2, weight.shape()[0], weight, "weight");
  return matmul(x, weight) + bias;
}
Tensor GRUCell::step(const Tensor& inputs, const Tensor& state) const {
  const int64_t hidden = recurrent.shape()[0];
  require_state(state, inputs, hidden, recurrent);
  const std::vector<Tensor> own = split(matmul(state, recurrent) + recurrent_bias, 3, {.axis = -1});
  const std::vector<Tensor> given = split(inputs, 3, {.axis = -1});
  const Tensor z = sigmoid(given[0] + own[0]), r = sigmoid(given[1] + own[1]);
  const Tensor next = etude::tanh(given[2] + r * own[2]);
  return z * state + (1.0 - z) * next;
}
Tensor GRUCell::operator()(const Tensor& x, const Tensor& state, CallSite where) const {
  return internal::run_layer(this, "GRUCell", where, 6 * (weight.shape()[0] + recurrent.shape()[0]),
                             [&] { return step(inputs(x), state); });
}

ConvLSTM2DCell::ConvLSTM2DCell(const IntList& window, int64_t in, int64_t out,
                               const LSTMCellOptions& options, CallSite where)
    : forget_bias_(options.forget_bias) {
  etude::internal::located("ConvLSTM2DCell", where, [&] {
    ETUDE_REQUIRE(in >= 1 && out >= 1, "{} input and {} output channels; both must be at least 1",
                  in, out);
    const std::vector<int64_t> size = internal::sizes_of(window, 2, "the window");
    filter = options.weight_init({size[0], size[1], in, 4 * out});
    recurrent = options.recurrent_init({size[0], size[1], out, 4 * out});
    bias = options.bias_init({4 * out});
  });
}
LSTMState ConvLSTM2DCell::zero_state(const Shape& x, DType dtype) const {
  Shape shape = x;
  shape.set(shape.rank() - 1, recurrent.shape()[2]);
  const Tensor zero = etude::internal::full(intern_type(dtype, shape), 0);
  return {zero, zero};
}
Tensor ConvLSTM2DCell::inputs(const Tensor& x) const {
  internal::require_input(x, -4, filter.shape()[2], filter, "filter");
  std::vector<int64_t> shape = x.shape().to_vector();
  const std::size_t last = shape.size() - 1;
  const Tensor y = conv2d(reshape(x, {-1, shape[last - 2], shape[last - 1], shape[last]}), filter,
                          {.padding = "same", .bias = bias});
  shape[last] = filter.shape()[3];
  return reshape(y, shape);
}
LSTMState ConvLSTM2DCell::step(const Tensor& inputs, const LSTMState& state) const {
  const int64_t out = recurrent.shape()[2];
  require_state(state.h, inputs, out, recurrent);
  require_state(state.c, inputs, out, recurrent);
  return gated(inputs + conv2d(state.h, recurrent, {.padding = "same"}), state.c, forget_bias_);
}
LSTMState ConvLSTM2DCell::operator()(const Tensor& x, const LSTMState& state,
                                     CallSite where) const {
  const Shape& f = filter.shape();
  return internal::run_layer(this, "ConvLSTM2DCell", where,
                             8 * f[0] * f[1] * (f[2] + recurrent.shape()[2]),
                             [&] { return step(inputs(x), state); });
}

}  // namespace etude::nn
