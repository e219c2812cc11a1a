// SPDX-License-Identifier: Apache-2.0
// Cells of recurrent layers: the computation of one step. recurrent.h runs them along a time axis.
//
// A cell has `State`, `zero_state(n, dtype)`, `inputs(x)`, `step(inputs, state)` and
// `output(state)`. inputs(x) is the part of a step that needs only x and can be computed for all
// steps at once. cell(x, state) is step(inputs(x), state).
#pragma once

#include "etude/base/fields.h"
#include "etude/core/op/attrs.h"
#include "etude/nn/init.h"
#include "etude/nn/layer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

struct CellOptions {
  Initializer weight_init = glorot_uniform;
  Initializer recurrent_init = glorot_uniform;  // of the part that multiplies the state
  Initializer bias_init = zeros;
};

// tanh([x, state] weight + bias). shapes: x [n, input], state and result [n, hidden], weight [input
// + hidden, hidden], bias [hidden].
//
// All cells throw the same errors. throws (construction): kInvalidArgument for sizes below 1.
// throws (call): kInvalidArgument for an input or a state of another size.
class SimpleRNNCell {
 public:
  using State = Tensor;
  SimpleRNNCell(int64_t input, int64_t hidden, const CellOptions& options = {},
                CallSite where = CallSite::here());
  State operator()(const Tensor& x, const State& state, CallSite where = CallSite::here()) const;
  State zero_state(int64_t n, DType dtype = kFloat32) const;
  Tensor inputs(const Tensor& x) const;
  // The rows of the weight that multiply the state. A run of many steps slices them once.
  Tensor state_weight() const;
  State step(const Tensor& inputs, const State& state, const Tensor& state_weight) const;
  State step(const Tensor& inputs, const State& state) const {
    return step(inputs, state, state_weight());
  }
  static const Tensor& output(const State& state) { return state; }

  Tensor weight, bias;
  ETUDE_FIELDS(SimpleRNNCell, weight, bias);
};

struct LSTMState {
  Tensor h, c;
};
struct LSTMCellOptions {
  double forget_bias = 0;  // added to the sum of the forget gate
  Initializer weight_init = glorot_uniform;
  Initializer recurrent_init = glorot_uniform;
  Initializer bias_init = zeros;
};

// S. Hochreiter and J. Schmidhuber, "Long short-term memory" (1997), with forget gates. The blocks
// of [x, h] weight + bias are i, g, f, o, in this order. The next state is c' = sigmoid(f +
// forget_bias) c + sigmoid(i) tanh(g) and h' = sigmoid(o) tanh(c'). shapes: weight [input + hidden,
// 4 hidden], bias [4 hidden].
class LSTMCell {
 public:
  using State = LSTMState;
  LSTMCell(int64_t input, int64_t hidden, const LSTMCellOptions& options = {},
           CallSite where = CallSite::here());
  State operator()(const Tensor& x, const State& state, CallSite where = CallSite::here()) const;
  State zero_state(int64_t n, DType dtype = kFloat32) const;
  Tensor inputs(const Tensor& x) const;
  Tensor state_weight() const;
  State step(const Tensor& inputs, const State& state, const Tensor& state_weight) const;
  State step(const Tensor& inputs, const State& state) const {
    return step(inputs, state, state_weight());
  }
  static const Tensor& output(const State& state) { return state.h; }

  Tensor weight, bias;
  ETUDE_FIELDS(LSTMCell, weight, bias);
  ETUDE_HOST_VALUES(forget_bias_);

 private:
  double forget_bias_;
};

// K. Cho et al., "Learning phrase representations using RNN encoder-decoder" (2014), with the reset
// gate after the recurrent product. The blocks of x weight + bias and of h recurrent +
// recurrent_bias are z, r, n. The next state is h' = z h + (1 - z) tanh(x_n + r h_n), where z and r
// are the sigmoids of the sums of their blocks. shapes: weight [input, 3 hidden], recurrent
// [hidden, 3 hidden], both biases [3 hidden].
class GRUCell {
 public:
  using State = Tensor;
  GRUCell(int64_t input, int64_t hidden, const CellOptions& options = {},
          CallSite where = CallSite::here());
  State operator()(const Tensor& x, const State& state, CallSite where = CallSite::here()) const;
  State zero_state(int64_t n, DType dtype = kFloat32) const;
  Tensor inputs(const Tensor& x) const;
  State step(const Tensor& inputs, const State& state) const;
  static const Tensor& output(const State& state) { return state; }

  Tensor weight, recurrent, bias, recurrent_bias;
  ETUDE_FIELDS(GRUCell, weight, recurrent, bias, recurrent_bias);
};

// An LSTMCell on images, with convolutions of padding "same" as its products: X. Shi et al.,
// "Convolutional LSTM network" (2015), without peepholes. shapes: x [n, h, w, in], h and c [n, h,
// w, out], filter [height, width, in, 4 out], recurrent [height, width, out, 4 out], bias [4 out].
class ConvLSTM2DCell {
 public:
  using State = LSTMState;
  ConvLSTM2DCell(const IntList& window, int64_t in, int64_t out,
                 const LSTMCellOptions& options = {}, CallSite where = CallSite::here());
  State operator()(const Tensor& x, const State& state, CallSite where = CallSite::here()) const;
  // For inputs of shape `x`.
  State zero_state(const Shape& x, DType dtype = kFloat32) const;
  Tensor inputs(const Tensor& x) const;
  State step(const Tensor& inputs, const State& state) const;
  static const Tensor& output(const State& state) { return state.h; }

  Tensor filter, recurrent, bias;
  ETUDE_FIELDS(ConvLSTM2DCell, filter, recurrent, bias);
  ETUDE_HOST_VALUES(forget_bias_);

 private:
  double forget_bias_;
};

}  // namespace nn
}  // namespace etude
