// SPDX-License-Identifier: Apache-2.0
// The gates of an LSTM in one pass, and their gradient. Used by ops/network/gates.cc.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// Operands: sums of the gates i, g, f, o [.., 4 n]; state [.., n]. Results: the output sigmoid(o)
// tanh(next); the next state, sigmoid(f + forget_bias) state + sigmoid(i) tanh(g); and the values
// of the four gates [.., 4 n]. In float32 the bits equal element-wise calls.
void prepare_lstm_gates(const PrepareCall& call, double forget_bias);
// Operands: the gates, the state, the next state, and the cotangents of the output and of the next
// state. Results: the cotangents of the sums and of the state.
void prepare_lstm_gates_gradient(const PrepareCall& call);

}  // namespace etude::kernels::cpu
