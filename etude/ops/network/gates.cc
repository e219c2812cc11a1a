// SPDX-License-Identifier: Apache-2.0
// The gates of an LSTM in one pass, for layers; see nn/layers/cells.cc.
#include "etude/kernels/cpu/elementwise/gates.h"

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/op/batching.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

constexpr DTypeSet kGated = DTypeSet(kFloat32) | kFloat64;

// All operands are like the state, but for the first, which has four blocks in the place of one.
void require_gates(const TypeCall& call) {
  const Shape& state = call.shape(1);
  ETUDE_REQUIRE(state.rank() >= 1, "operand 'state' has no axis. Its last one are the units");
  Shape blocks = state;
  blocks.set(blocks.rank() - 1, 4 * state[state.rank() - 1]);
  ETUDE_REQUIRE(call.shape(0) == blocks,
                "operand '{}' has shape {}, but must be {}: four blocks for a state of shape {}",
                call.op.operand(0).name, call.shape(0).to_string(), blocks.to_string(),
                state.to_string());
  for (std::size_t i = 1; i < call.types.size(); ++i) {
    ETUDE_REQUIRE(call.shape(i) == state, "operand '{}' has shape {}, but must be {}",
                  call.op.operand(i).name, call.shape(i).to_string(), state.to_string());
  }
}

// A cotangent; zeros where none has arrived.
Tensor cotangent(const VjpCall& call, std::size_t i, const Tensor& like) {
  return call.cotangents.has(i) ? call.cotangents[i] : internal::full(like.type(), 0);
}

// Blocks of gates [.., 4 n], and their partial derivatives by the sums.
struct Blocks {
  explicit Blocks(const Tensor& all) {
    const std::vector<Tensor> parts = split(all, 4, {.axis = -1});
    i = parts[0], g = parts[1], f = parts[2], o = parts[3];
  }
  static Tensor of_sigmoid(const Tensor& y) { return y * (1.0 - y); }
  Tensor i, g, f, o;
};

Values gates_vjp(const VjpCall& call) {
  const Tensor &gates = call.out[2], &next = call.out[1], &state = call.in[1];
  const Tensor by_output = cotangent(call, 0, state), by_next = cotangent(call, 1, state);
  Values out =
      run_all(op<"lstm_gates_gradient">(), {&gates, &state, &next, &by_output, &by_next}, {});
  if (call.cotangents.has(2)) {
    const Blocks y(gates);
    const Tensor slopes = concat({Blocks::of_sigmoid(y.i), 1.0 - y.g * y.g, Blocks::of_sigmoid(y.f),
                                  Blocks::of_sigmoid(y.o)},
                                 {.axis = -1});
    out[0] = out[0] + call.cotangents[2] * slopes;
  }
  for (std::size_t k = 0; k < 2; ++k) {
    if (!call.wants(k)) out[k] = Tensor();
  }
  return out;
}

// With gates i, g, f, o, state c, t = tanh(next), cotangents p of the output and q of the next
// state, and r = q + p o (1 - t^2), the gradient is (r g i', r i g', r c f', p t o', r f), where a
// prime is the partial derivative by the sum. The sum of its products with cotangents (a, b, d, e,
// k) is r K + p t o' e with K = a g i' + b i g' + d c f' + k f. The code below has its derivatives.
Values gates_gradient_vjp(const VjpCall& call) {
  const Blocks y(call.in[0]), ct(cotangent(call, 0, call.in[0]));
  const Tensor &i = y.i, &g = y.g, &f = y.f, &o = y.o;
  const Tensor &a = ct.i, &b = ct.g, &d = ct.f, &e = ct.o;
  const Tensor &c = call.in[1], &p = call.in[3], &q = call.in[4];
  const Tensor k = cotangent(call, 1, c);
  const Tensor i1 = Blocks::of_sigmoid(i), f1 = Blocks::of_sigmoid(f), o1 = Blocks::of_sigmoid(o);
  const Tensor g1 = 1.0 - g * g, t = tanh(call.in[2]), t1 = 1.0 - t * t, r = q + p * o * t1;
  const Tensor all = a * g * i1 + b * i * g1 + d * c * f1 + k * f;
  Values out(5);
  if (call.wants(0)) {
    out[0] = concat({r * (a * g * (1.0 - 2.0 * i) + b * g1), r * (a * i1 - 2.0 * b * i * g),
                     r * (d * c * (1.0 - 2.0 * f) + k), p * (t1 * all + t * e * (1.0 - 2.0 * o))},
                    {.axis = -1});
  }
  if (call.wants(1)) out[1] = r * d * f1;
  if (call.wants(2)) out[2] = t1 * p * (o1 * e - 2.0 * t * o * all);
  if (call.wants(3)) out[3] = o * t1 * all + t * o1 * e;
  if (call.wants(4)) out[4] = all;
  return out;
}

Values gates_batch(const BatchCall& call) {
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    operands.push_back(batching::leading(call, i));
  }
  return batching::call_again(call, operands);
}

std::vector<std::pair<std::string_view, AttrValue>> with_bias(double forget_bias) {
  return {{"forget_bias", forget_bias}};
}

}  // namespace

void define_gates(Registry& r) {
  r.define({
      .name = "lstm_gates",
      .space = "internal",
      .doc = "Of blocks i, g, f, o of sums: next = sigmoid(f + forget_bias) state + sigmoid(i) "
             "tanh(g), output = sigmoid(o) tanh(next), and these four gates.",
      .operands = {"sums", "state"},
      .attrs = {{"forget_bias", 0.0}},
      .results = {"output", "next", "gates"},
      .dtypes = kGated,
      .type =
          [](const TypeCall& call) {
            require_gates(call);
            return Types{call.types[1], call.types[1], call.types[0]};
          },
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        kernels::cpu::prepare_lstm_gates(call, call.attrs.real("forget_bias"));
                      }},
      .vjp = gates_vjp,
      .batch = gates_batch,
      .samples = {.calls = {{{"[8]", "[2]"}, with_bias(0)},
                            {{"[3,20]", "[3,5]"}, with_bias(1)},
                            {{"[2,2,76]", "[2,2,19]"}, with_bias(-0.5)},
                            {{"[0,8]", "[0,2]"}, with_bias(0)}},
                  .ulp = 32},
      .errors = {{{"float32[3,8]", "float32[3,4]"},
                  "operand 'sums' has shape [3,8], but must be [3,16]: four blocks for a state of "
                  "shape [3,4]",
                  with_bias(0)},
                 {{"float32[4]", "float32[]"}, "operand 'state' has no axis", with_bias(0)}},
  });
  r.define({
      .name = "lstm_gates_gradient",
      .space = "internal",
      .doc =
          "The cotangents of the operands of lstm_gates, from its results and those of the first "
          "two.",
      .operands = {"gates", "state", "next", "by_output", "by_next"},
      .results = {"to_sums", "to_state"},
      .dtypes = kGated,
      .type =
          [](const TypeCall& call) {
            require_gates(call);
            return Types{call.types[0], call.types[1]};
          },
      .kernels = {.cpu = kernels::cpu::prepare_lstm_gates_gradient},
      .vjp = gates_gradient_vjp,
      .batch = gates_batch,
      .samples = {.calls = {{{"[8]", "[2]", "[2]", "[2]", "[2]"}},
                            {{"[3,20]", "[3,5]", "[3,5]", "[3,5]", "[3,5]"}},
                            {{"[2,76]", "[2,19]", "[2,19]", "[2,19]", "[2,19]"}}},
                  .ulp = 64},
      .errors = {{{"float32[8]", "float32[2]", "float32[2]", "float32[3]", "float32[2]"},
                  "operand 'by_output' has shape [3], but must be [2]"}},
  });
}

}  // namespace etude::ops
