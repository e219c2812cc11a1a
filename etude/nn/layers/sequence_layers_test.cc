// SPDX-License-Identifier: Apache-2.0
// Embeddings, recurrent layers, attention: values against check values, direct formulas and loops,
// and errors. Tests of every layer are in tests/training/layer_modes_test.cc.
#include <cmath>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/core/context/ambient.h"
#include "etude/nn/layers/attention.h"
#include "etude/nn/layers/embedding.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/recurrent.h"
#include "etude/nn/summary.h"
#include "etude/ops.h"
#include "etude/ops/gradient_of.h"
#include "etude/ops/random.h"
#include "etude/ops/test_numbers.h"
#include "etude/stage/function.h"
#include "tests/expect_error.h"

namespace etude::nn::sequence_layers_test {
namespace {

using etude::tests::drawn;
using etude::tests::expect_error;
using etude::tests::message_of;

void expect_close(const Tensor& got, const Tensor& want, double tolerance = 1e-5) {
  ASSERT_EQ(got.shape(), want.shape());
  expect_near(got, want.to_vector<double>(), tolerance);
}

// spec: L14
TEST(Embedding, RowsAndTheirSparseGradient) {
  Embedding words(5, 2);
  EXPECT_LE(max(abs(words.table)).item<float>(), 0.05F);
  words.table = reshape(arange(10, {.dtype = kFloat32}), {5, 2});
  const Tensor ids({{4, 0}, {4, -2}});
  expect_near(words(ids), {8, 9, 0, 1, 8, 9, 6, 7});
  const auto slope =
      gradient([&](const Embedding& e) { return sum(e(ids) * Tensor(2.0F)); }, words);
  ASSERT_TRUE(slope.table.slices().has_value()) << "the gradient is dense";
  EXPECT_EQ(slope.table.slices()->values.shape()[0], 4);
  expect_near(to_dense(slope.table), {2, 2, 0, 0, 0, 0, 2, 2, 4, 4});
  EXPECT_EQ(summary(words, {{2, 2}, kInt32}).parameters, 10);
  expect_error(
      [&] { words(Tensor({1.0F})); }, ErrorCode::kInvalidArgument,
      {"Embedding: embedding_lookup: operand 'ids' is float32", "sequence_layers_test.cc"});
  expect_error([&] { words(Tensor({5})); }, ErrorCode::kOutOfRange, {"Embedding: ", "5"});
  expect_error([] { Embedding(0, 3); }, ErrorCode::kInvalidArgument,
               {"Embedding: 0 rows of size 3; both must be at least 1"});
}

// spec: L30
TEST(Embedding, BagsAreSumsMeansAndMaxima) {
  const Tensor ids({{0, 1}, {2, 2}});
  const auto bag = [&](const char* mode) {
    EmbeddingBag bag(3, 2, mode);
    bag.table = Tensor({{1.0F, 2.0F}, {3.0F, 0.0F}, {5.0F, 6.0F}});
    return bag(ids);
  };
  expect_near(bag("sum"), {4, 2, 10, 12});
  expect_near(bag("mean"), {2, 1, 5, 6});
  expect_near(bag("max"), {3, 2, 5, 6});
  EXPECT_NE(message_of([] { EmbeddingBag(3, 2, "min"); }).find("mode is 'min'"), std::string::npos);
}

// spec: L28
TEST(Positions, WavesRotationsAndLearnedRows) {
  const PositionalEmbedding waves(10, 4, false);
  const Tensor y = waves(zeros({1, 3, 4}));
  expect_near(Tensor(y.at(0, 2)), {std::sin(2.), std::cos(2.), std::sin(.02), std::cos(.02)});
  PositionalEmbedding learned(10, 2);
  learned.table = reshape(arange(20, {.dtype = kFloat32}), {10, 2});
  expect_near(learned(ones({1, 2, 2})), {1, 2, 3, 4});
  EXPECT_NE(message_of([&] {
              learned(zeros({1, 11, 2}));
            }).find("[1,11,2] with 11 positions, but the layer has 10"),
            std::string::npos);
  // Turned by the position times 1 and by the position times 10^-2.
  const RotaryEmbedding turn(4, 1e4);
  const Tensor x = broadcast_to(Tensor({1.0F, 2.0F, 3.0F, 4.0F}), {2, 4});
  const double c = std::cos(1.), s = std::sin(1.), d = std::cos(.01), t = std::sin(.01);
  expect_near(turn(x), {1, 2, 3, 4, c - 3 * s, 2 * d - 4 * t, 3 * c + s, 4 * d + 2 * t});
  expect_close(turn.from(x, 1).at(0), turn(x).at(1));
  // Products depend on differences of positions.
  const SeedScope seed(1);
  const Tensor q = drawn({1, 4}), k = drawn({1, 4});
  const auto product = [&](int64_t i, int64_t j) {
    return sum(turn.from(q, i) * turn.from(k, j)).item<float>();
  };
  EXPECT_NEAR(product(7, 4), product(23, 20), 1e-4);
  EXPECT_NE(message_of([] { RotaryEmbedding(3); }).find("RotaryEmbedding: the size 3"),
            std::string::npos);
}

// spec: L19, L20, L21
TEST(Cells, CheckValuesAndFormulas) {
  LSTMCell zero(2, 1, {.weight_init = zeros, .recurrent_init = zeros});
  const LSTMState next = zero(ones({1, 2}), {zeros({1, 1}), ones({1, 1})});
  EXPECT_NEAR(next.c.item<float>(), .5, 1e-6);
  EXPECT_NEAR(next.h.item<float>(), .2310586, 1e-6);
  GRUCell gate(3, 2, {.weight_init = zeros, .recurrent_init = zeros});
  expect_near(gate(ones({1, 3}), ones({1, 2})), {.5, .5});
  EXPECT_EQ(gate.zero_state(4).shape(), (Shape{4, 2}));

  const SeedScope seed(2);
  const Tensor x = drawn({3, 4}), h = drawn({3, 2}), c = drawn({3, 2});
  const SimpleRNNCell simple(4, 2, {.bias_init = random_normal(0, 1)});
  expect_close(simple(x, h),
               tanh(matmul(concat({x, h}, {.axis = 1}), simple.weight) + simple.bias));
  const LSTMCell lstm(4, 2, {.forget_bias = 1, .bias_init = random_normal(0, 1)});
  EXPECT_EQ(lstm.weight.shape(), (Shape{6, 8}));
  const std::vector<Tensor> parts =
      split(matmul(concat({x, h}, {.axis = 1}), lstm.weight) + lstm.bias, 4, {.axis = 1});
  const Tensor want = sigmoid(parts[2] + 1.0F) * c + sigmoid(parts[0]) * tanh(parts[1]);
  const LSTMState state = lstm(x, {h, c});
  expect_close(state.c, want);
  expect_close(state.h, sigmoid(parts[3]) * tanh(want));

  const GRUCell gru(4, 2, {.bias_init = random_normal(0, 1)});
  const std::vector<Tensor> a = split(matmul(x, gru.weight) + gru.bias, 3, {.axis = 1});
  const std::vector<Tensor> b =
      split(matmul(h, gru.recurrent) + gru.recurrent_bias, 3, {.axis = 1});
  const Tensor z = sigmoid(a[0] + b[0]), r = sigmoid(a[1] + b[1]);
  expect_close(gru(x, h), z * h + (1.0 - z) * tanh(a[2] + r * b[2]));
  EXPECT_EQ(summary(Recurrent(gru), {1, 2, 4}).parameters, 3 * (4 * 2 + 2 * 2) + 6 * 2);
}

// The gates of an LSTM are one call, with the bits and the derivatives of element-wise ones.
// spec: L20
TEST(Cells, GatesRunInOnePass) {
  const SeedScope seed(4);
  const LSTMCell cell(3, 19, {.forget_bias = 1});
  const Tensor x = drawn({2, 3}), h = drawn({2, 19}), c = drawn({2, 19});
  const auto apart = [&](const Tensor& inputs, const Tensor& state) -> LSTMState {
    const std::vector<Tensor> parts =
        split(cell.inputs(inputs) + matmul(h, cell.state_weight()), 4, {.axis = -1});
    const Tensor next = sigmoid(parts[2] + 1.0) * state + sigmoid(parts[0]) * tanh(parts[1]);
    return {sigmoid(parts[3]) * tanh(next), next};
  };
  const LSTMState now = cell(x, {h, c}), want = apart(x, c);
  EXPECT_TRUE(same_value(now.h, want.h));
  EXPECT_TRUE(same_value(now.c, want.c));
  const Tensor one = c.at(slice(0, 1));
  EXPECT_TRUE(same_value(cell(x, {h, one}).c, cell(x, {h, concat({one, one})}).c));

  const auto cost = [](const LSTMState& s) { return sum(s.h * s.h * s.c) + sum(s.c * s.c); };
  const auto together = [&](const Tensor& a, const Tensor& b) { return cost(cell(a, {h, b})); };
  const auto by_parts = [&](const Tensor& a, const Tensor& b) { return cost(apart(a, b)); };
  const auto slopes = [](const auto& f) {
    return [f](const Tensor& a, const Tensor& b) {
      const auto [da, db] = gradient(f, a, b);
      return sum(da * da) + sum(db * db * db);
    };
  };
  const auto expect_alike = [&](const auto& f, const auto& g) {
    const auto [fa, fb] = gradient(f, x, c);
    const auto [ga, gb] = gradient(g, x, c);
    expect_close(fa, ga, 1e-4);
    expect_close(fb, gb, 1e-4);
  };
  expect_alike(together, by_parts);
  expect_alike(slopes(together), slopes(by_parts));
}

// spec: L22
TEST(Recurrent, IsTheLoopOfItsCell) {
  const SeedScope seed(3);
  const Recurrent layer(LSTMCell(3, 4));
  const Tensor x = drawn({2, 5, 3});
  const auto [outputs, last] = layer.run(x);
  std::vector<Tensor> steps;
  for (int t = 0; t < 5; ++t) steps.push_back(Tensor(x.at(kAll, t)));
  const std::vector<Tensor> loop = layer(steps);
  ASSERT_EQ(loop.size(), 5U);
  expect_close(outputs, stack(loop, {.axis = 1}));
  expect_close(last.h, loop.back());
  EXPECT_TRUE(layer(std::vector<Tensor>()).empty());
  EXPECT_EQ(layer(zeros({2, 0, 3})).shape(), (Shape{2, 0, 4}));
  // A staged call is one scan, with the same bits.
  const auto staged = function([](const Recurrent<LSTMCell>& l, const Tensor& v) { return l(v); });
  EXPECT_TRUE(same_value(staged(layer, x), outputs));
  // It goes on from a state.
  const auto half = layer.run(x.at(kAll, slice(0, 2)));
  const auto rest = layer.run(x.at(kAll, slice(2, 5)), {.initial = half.last});
  expect_close(rest.last.c, last.c);
  const Recurrent end(layer.cell, {.last_output = true});
  EXPECT_TRUE(same_value(end(x), last.h));
  const auto slope = gradient([&](const Recurrent<LSTMCell>& l) { return sum(l(x)); }, layer);
  const auto want = gradient(
      [&](const LSTMCell& cell) {
        LSTMState state = cell.zero_state(2);
        Tensor total(0.0F);
        for (const Tensor& step : steps) {
          state = cell(step, state);
          total = total + sum(state.h);
        }
        return total;
      },
      layer.cell);
  expect_close(slope.cell.weight, want.weight, 1e-4);
  expect_close(slope.cell.bias, want.bias, 1e-4);
}

// spec: L22, L23
TEST(Recurrent, LengthsEndExamples) {
  const SeedScope seed(4);
  const Recurrent layer(GRUCell(3, 4));
  const Tensor x = drawn({2, 5, 3}), lengths({2, 5});
  const auto [outputs, last] = layer.run(x, {.lengths = lengths});
  const auto brief = layer.run(x.at(slice(0, 1), slice(0, 2)));
  expect_close(outputs.at(slice(0, 1), slice(0, 2)), brief.outputs);
  expect_close(last.at(slice(0, 1)), brief.last);
  expect_near(Tensor(outputs.at(0, slice(2, 5))), std::vector<double>(12, 0));
  expect_error(
      [&] {
        layer.run(x, {.lengths = Tensor({1.0F, 2.0F})});
      },
      ErrorCode::kInvalidArgument,
      {"Recurrent: the lengths are float32[2], but must be integers [2]"});

  const Bidirectional both(GRUCell(3, 4), GRUCell(3, 4));
  const Tensor y = both.run(x, lengths);
  EXPECT_EQ(y.shape(), (Shape{2, 5, 8}));
  const Tensor turned = flip(x.at(slice(0, 1), slice(0, 2)), {.axis = 1});
  expect_close(y.at(slice(0, 1), slice(0, 2), slice(4, 8)),
               flip(both.backward(turned), {.axis = 1}));
  const Masking masking(7);
  const Tensor padded = where(reshape(Tensor({{1, 1, 0, 0, 0}, {1, 1, 1, 1, 1}}), {2, 5, 1}) > 0, x,
                              full({2, 5, 3}, 7.0F));
  EXPECT_EQ(masking.lengths(padded).to_vector<int>(), (std::vector<int>{2, 5}));
  EXPECT_EQ(masking.lengths(full({1, 3, 2}, 7.0F)).to_vector<int>(), (std::vector<int>{0}));
  expect_close(masking(padded).at(0, slice(2, 5)), zeros({3, 3}));
}

// spec: L23
TEST(Bidirectional, MergesBothDirections) {
  const SeedScope seed(5);
  const SimpleRNNCell ahead(3, 2), back(3, 2);
  const Tensor x = drawn({2, 4, 3});
  const Tensor a = Recurrent(ahead)(x);
  const Tensor b = flip(Recurrent(back)(flip(x, {.axis = 1})), {.axis = 1});
  const auto merged = [&](const char* how) { return Bidirectional(ahead, back, how)(x); };
  expect_close(merged("concat"), concat({a, b}, {.axis = 2}));
  expect_close(merged("sum"), a + b);
  expect_close(merged("average"), (a + b) * 0.5F);
  expect_close(merged("multiply"), a * b);
  expect_close(merged("stack"), stack({a, b}, {.axis = 2}));
  EXPECT_NE(message_of([&] {
              Bidirectional(ahead, back, "max");
            }).find("Bidirectional: merge is 'max', but must be"),
            std::string::npos);
}

// spec: L30
TEST(Recurrent, RunsConvolutionalCells) {
  const SeedScope seed(10);
  const Recurrent layer(ConvLSTM2DCell(3, 2, 3));
  const Tensor x = drawn({2, 4, 5, 6, 2});
  const auto [outputs, last] = layer.run(x, {.lengths = Tensor({4, 2})});
  ASSERT_EQ(outputs.shape(), (Shape{2, 4, 5, 6, 3}));
  // The filter joins the filters of the input and of the state.
  const Tensor filter = concat({layer.cell.filter, layer.cell.recurrent}, {.axis = 2});
  LSTMState state = layer.cell.zero_state({2, 5, 6, 2});
  for (int t = 0; t < 4; ++t) {
    const std::vector<Tensor> gates = split(
        conv2d(concat({Tensor(x.at(kAll, t)), state.h}, {.axis = 3}), filter, {.padding = "same"}),
        4, {.axis = 3});
    state.c = sigmoid(gates[2]) * state.c + sigmoid(gates[0]) * tanh(gates[1]);
    state.h = sigmoid(gates[3]) * tanh(state.c);
    expect_close(outputs.at(0, t), state.h.at(0));
    if (t == 1) expect_close(last.h.at(1), state.h.at(1));
  }
  expect_close(last.c.at(0), state.c.at(0));
}

// Attention of one head by its formula, for queries [time, size].
Tensor attended(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.shape()[1]));
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < q.shape()[0]; ++i) {
    const int64_t seen = causal ? i + 1 + k.shape()[0] - q.shape()[0] : k.shape()[0];
    const Tensor weights = exp(matmul(k, reshape(q.at(i), {-1, 1})) * scale).at(slice(0, seen));
    rows.push_back(sum(weights / sum(weights) * v.at(slice(0, seen)), {.axis = 0}));
  }
  return stack(rows);
}

// spec: L28
TEST(Attention, IsItsFormula) {
  const SeedScope seed(6);
  const Tensor x = drawn({2, 5, 6}), memory = drawn({2, 3, 6});
  for (const bool causal : {false, true}) {
    const MultiHeadAttention layer(6, 2, {.causal = causal});
    const Tensor& from = causal ? x : memory;
    const Tensor q = layer.query(x), k = layer.key(from), v = layer.value(from);
    std::vector<Tensor> examples;
    for (int n = 0; n < 2; ++n) {
      std::vector<Tensor> heads;
      for (int h = 0; h < 2; ++h) {
        const Slice part = slice(3 * h, 3 * h + 3);
        heads.push_back(
            attended(q.at(n, kAll, part), k.at(n, kAll, part), v.at(n, kAll, part), causal));
      }
      examples.push_back(concat(heads, {.axis = 1}));
    }
    expect_close(layer.attend(x, from), layer.output(stack(examples)), 1e-4);
  }
  // A mask that hides the last key is as if it were not there.
  const MultiHeadAttention layer(6, 3);
  expect_close(layer.attend(x, memory, Tensor({true, true, false})),
               layer.attend(x, memory.at(kAll, slice(0, 2))), 1e-4);
  EXPECT_EQ(summary(layer, {1, 5, 6}).parameters, 4 * (36 + 6));
  EXPECT_NE(message_of([] {
              MultiHeadAttention(6, 4);
            }).find("MultiHeadAttention: 4 heads must divide the size 6"),
            std::string::npos);
  EXPECT_NE(
      message_of([&] {
        layer(zeros({2, 5, 4}));
      })
          .find("MultiHeadAttention: the input has shape [2,5,4], but the layer needs 3 axes, "
                "the last of size 6 (its query weight has shape [6,6])"),
      std::string::npos);
}

// spec: L28, T20
TEST(Attention, DropoutIsOfTheWeightsInTraining) {
  const Tensor x = [] {
    const SeedScope seed(9);
    return drawn({2, 5, 6});
  }();
  const MultiHeadAttention layer(6, 1, {.dropout = 0.4, .causal = true});
  const auto without = [&] {
    MultiHeadAttention other(6, 1, {.causal = true});
    other.query = layer.query, other.key = layer.key;
    other.value = layer.value, other.output = layer.output;
    return other(x);
  };
  const PhaseScope training(Phase::kTraining);
  const SeedScope seed(3);
  Generator generator = ambient().generator;
  const Tensor got = layer(x), q = layer.query(x), k = layer.key(x), v = layer.value(x);
  const Tensor scores = matmul(q, k, {.transpose_y = true}) / std::sqrt(6.0);
  const Tensor seen = tril(etude::ones({5, 5}, {.dtype = kBool}));
  const Tensor kept = random::bernoulli(Tensor(static_cast<float>(1 - 0.4)), {2, 1, 5, 5},
                                        {.key = generator.next_key()});
  const Tensor weights = softmax(etude::where(seen, scores, -1e30)) / 0.6;
  const Tensor some = etude::where(squeeze(kept, 1), weights, 0.0);
  expect_close(got, layer.output(matmul(some, v)), 1e-4);
  const PhaseScope inference(Phase::kInference);
  EXPECT_TRUE(same_value(layer(x), without()));
}

// spec: L28
TEST(Attention, AQueryThatSeesNothingGivesTheBias) {
  const SeedScope seed(4);
  MultiHeadAttention layer(6, 2);
  layer.output.bias = drawn({6});
  const Tensor x = drawn({1, 2, 6});
  const Tensor y = layer.attend(x, x, Tensor({{false, false}, {true, true}}));
  expect_close(y.at(0, 0), layer.output.bias);
  expect_close(y.at(0, 1), layer(x).at(0, 1));
}

// spec: L28
TEST(Attention, ACacheContinuesASequence) {
  const SeedScope seed(7);
  const MultiHeadAttention layer(8, 2, {.causal = true, .rotary = true});
  const Tensor x = drawn({2, 5, 8}), want = layer(x);
  AttentionCache cache;
  std::vector<Tensor> parts = {layer.extend(x.at(kAll, slice(0, 2)), cache)};
  const AttentionCache kept = cache;  // a value: later calls do not change it
  for (int t = 2; t < 5; ++t) {
    parts.push_back(layer.extend(x.at(kAll, slice(t, t + 1)), cache));
  }
  expect_close(concat(parts, {.axis = 1}), want, 1e-4);
  EXPECT_EQ(cache.length(), 5);
  AttentionCache again = kept;
  EXPECT_EQ(again.length(), 2);
  expect_close(layer.extend(x.at(kAll, slice(2, 5)), again), want.at(kAll, slice(2, 5)), 1e-4);
}

// spec: L28
TEST(Transformer, LayersAddToTheirInput) {
  const SeedScope seed(8);
  TransformerEncoderLayer encoder(8, 2, {.hidden = 16});
  const Tensor x = drawn({2, 4, 8});
  EXPECT_EQ(summary(encoder, {1, 4, 8}).parameters, 4 * (64 + 8) + 2 * 16 + 2 * 8 * 16 + 16 + 8);
  TransformerEncoderLayer idle = encoder;
  idle.attention.output.weight = zeros({8, 8});
  idle.down.weight = zeros({16, 8});
  EXPECT_TRUE(same_value(idle(x), x));
  const auto part = [&](const LayerNorm& norm, const Tensor& y) { return norm(y); };
  const Tensor seen = x + encoder.attention(part(encoder.attention_norm, x));
  expect_close(encoder(x), seen + encoder.down(encoder.up(part(encoder.dense_norm, seen))), 1e-4);
  TransformerDecoderLayer decoder(8, 2, {.norm_first = false});
  EXPECT_EQ(decoder(x, drawn({2, 7, 8})).shape(), x.shape());
  // Causal: later steps do not change earlier results.
  const Tensor memory = drawn({2, 3, 8});
  Tensor later = x;
  later.at(kAll, 3) = 9.0F;
  expect_close(decoder(x, memory).at(kAll, slice(0, 3)),
               decoder(later, memory).at(kAll, slice(0, 3)));
  const PhaseScope training(Phase::kTraining);
  const TransformerEncoderLayer noisy(8, 2, {.dropout = 0.5});
  EXPECT_FALSE(same_value(noisy(x), noisy(x)));
}

// spec: L12, L30
TEST(Shapes, PermuteRepeatBilinearPReLU) {
  const SeedScope seed(9);
  const Tensor x = drawn({2, 3, 4});
  EXPECT_TRUE(same_value(Permute({2, 1})(x), swapaxes(x, 1, 2)));
  expect_near(RepeatVector(2)(Tensor({{1.0, 2.0}})), {1, 2, 1, 2});
  expect_near(PReLU(1)(Tensor({-4.0, 2.0})), {-1, 2});
  const Bilinear form(3, 4, 2);
  const Tensor a = drawn({5, 3}), b = drawn({5, 4});
  expect_close(form(a, b), einsum("ni,nj,ijo->no", {a, b, form.weight}));
  const Dense dense(4, 2);
  expect_close(TimeDistributed(dense)(x), dense(x));
  EXPECT_NE(message_of([] {
              Permute({1, 3});
            }).find("the axes are [1,3], but must be those from 1"),
            std::string::npos);
  EXPECT_NE(message_of([&] { PReLU(3)(x); }).find("PReLU: the input has shape [2,3,4]"),
            std::string::npos);
  EXPECT_NE(message_of([] { RepeatVector(0); }).find("RepeatVector: times is 0"),
            std::string::npos);
}

}  // namespace
}  // namespace etude::nn::sequence_layers_test
