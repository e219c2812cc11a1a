// SPDX-License-Identifier: Apache-2.0
// Gradients that hold only the rows touched, and jacobians.
#include <cmath>
#include <complex>

#include "etude/autodiff/custom_gradient.h"
#include "etude/autodiff/gradient.h"
#include "etude/base/warning.h"
#include "etude/core/create.h"
#include "etude/ops.h"
#include "etude/optim/adaptive_rules.h"
#include "etude/optim/sgd.h"
#include "tests/gradient/expect.h"
#include "tests/warnings.h"

namespace etude {
namespace {

using tests::expect_error;
using tests::expect_values;

Tensor table() {
  return Tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}, {7.0, 8.0, 9.0}, {10.0, 11.0, 12.0}});
}

Tensor gradient_of_take(const Tensor& v, const Tensor& ids) {
  GradientTape tape;
  tape.watch(v);
  return tape.gradient(sum(take(v, ids, {.axis = 0})), v);
}

TEST(Slices, TakeGivesRows) {  // spec: SL-01, SL-02, SL-07.a
  for (const DType dtype : {kInt32, kInt64}) {
    const Tensor g = gradient_of_take(table(), astype(Tensor({1, 3}), dtype));
    const auto rows = g.slices();
    ASSERT_TRUE(rows.has_value());
    EXPECT_EQ(rows->indices.to_vector<int>(), (std::vector<int>{1, 3}));
    expect_values(rows->values, {1, 1, 1, 1, 1, 1});
    EXPECT_EQ(rows->dense_shape, (Shape{4, 3}));
    expect_values(to_dense(g), {0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1});
  }
  const Tensor twice = gradient_of_take(table(), Tensor({1, 1}));
  ASSERT_TRUE(twice.slices().has_value());
  EXPECT_EQ(twice.slices()->indices.to_vector<int>(), (std::vector<int>{1, 1}));
  expect_values(to_dense(twice), {0, 0, 0, 2, 2, 2, 0, 0, 0, 0, 0, 0});
}

TEST(Slices, Sums) {  // spec: SL-03.a, SL-03.c
  Tensor v = table();
  GradientTape tape({.persistent = true});
  tape.watch(v);
  const Tensor a = sum(take(v, Tensor({1}), {.axis = 0})),
               b = sum(take(v, Tensor({3, 1}), {.axis = 0}));
  const Tensor dense = sum(v * 10.0);
  tape.stop();
  const Tensor both = tape.gradient(std::vector{a, b}, v);
  ASSERT_TRUE(both.slices().has_value());
  EXPECT_EQ(both.slices()->indices.shape()[0], 3);
  expect_values(to_dense(both), {0, 0, 0, 2, 2, 2, 0, 0, 0, 1, 1, 1});
  const Tensor mixed = tape.gradient(std::vector{a, dense}, v);
  EXPECT_FALSE(mixed.slices().has_value());
  expect_values(mixed, {10, 10, 10, 11, 11, 11, 10, 10, 10, 10, 10, 10});
}

TEST(Slices, DensifyingNeedsAShape) {  // spec: SL-04.a
  const Tensor open = make_slices({Tensor({0}), Tensor({{1.0, 2.0}}), Shape{kAny, 2}});
  expect_error([&] { to_dense(open); }, ErrorCode::kFailedPrecondition, {"axis 0", "dense_shape"});
}

TEST(Slices, DTypesMustPromote) {  // spec: SL-04.b
  const Tensor v = table();
  GradientTape tape;
  tape.watch(v);
  const auto rows = custom_gradient([](const Tensor& x) {
    return std::pair{sum(x), [](const Tensor&) {
                       return make_slices({Tensor({0}), Tensor({{1, 2, 3}}), Shape{4, 3}});
                     }};
  });
  const Tensor y = rows(v) + sum(take(v, Tensor({1}), {.axis = 0}));
  ambient().promotion = Promotion::kStrict;
  expect_error([&] { tape.gradient(y, v); }, ErrorCode::kInvalidArgument, {"float32", "int32"});
  ambient().promotion = Promotion::kKinds;
}

TEST(Slices, HugeOnesWarnOncePerTake) {  // spec: SL-04.c
  const tests::Warnings heard;
  const Tensor v(0.0), big = broadcast_to(v, {1 << 15, 512});  // 64 MiB
  const Tensor small = broadcast_to(v, {1 << 10, 512});
  for (int i = 0; i < 2; ++i) {
    to_dense(gradient_of_take(big, Tensor({1, 3})));
    to_dense(gradient_of_take(small, Tensor({1, 3})));
  }
  GradientTape tape;
  tape.watch(big);
  const Tensor y = sum(big.at(Tensor({0})));
  const Tensor g = tape.gradient(y, big) + 1.0;
  ASSERT_EQ(heard.told.size(), 2U) << testing::PrintToString(heard.told);
  EXPECT_NE(heard.told[0].find("of take at tests/gradient/slices_test.cc:"), std::string::npos)
      << heard.told[0];
  EXPECT_NE(heard.told[0].find("holds 2 rows and is made dense: float32[32768,512], 64 MiB"),
            std::string::npos)
      << heard.told[0];
  EXPECT_NE(heard.told[0].substr(0, 90), heard.told[1].substr(0, 90))
      << "another take is another line";
}

// The rows of `x`, which must be sparse.
IndexedSlices rows_of(const Tensor& x) {
  EXPECT_TRUE(x.slices().has_value());
  return x.slices().value_or(IndexedSlices{});
}

TEST(Slices, StayThroughNegationAndScaling) {  // spec: SL-05.a
  const Tensor g = make_slices({Tensor({3, 1}), Tensor({{1.0, 2.0}, {3.0, 4.0}}), Shape{4, 2}});
  expect_values(rows_of(-g).values, {-1, -2, -3, -4});
  expect_values(rows_of(g * 2.0).values, {2, 4, 6, 8});
  expect_values(rows_of(0.5 * g).values, {0.5, 1, 1.5, 2});
  expect_values(rows_of(g / Tensor({{2.0}})).values, {0.5, 1, 1.5, 2});
  Tensor scaled = g;
  scaled *= 3.0;
  expect_values(rows_of(scaled).values, {3, 6, 9, 12});
  EXPECT_EQ(rows_of(scaled).indices.to_vector<int>(), (std::vector<int>{3, 1}));
  const auto wide = rows_of(g * tensor(2.0, {.dtype = kFloat64}));
  EXPECT_EQ(wide.values.dtype(), kFloat64);
  expect_values(rows_of(g).values, {1, 2, 3, 4});
  for (const Tensor& dense : {g + 1.0, g * g, 1.0 / (g + 1.0), exp(g), g * Tensor({1.0, 2.0})}) {
    EXPECT_FALSE(dense.slices().has_value());
    EXPECT_EQ(dense.shape(), (Shape{4, 2}));
  }
  expect_values(g + 1.0, {1, 1, 4, 5, 1, 1, 2, 3});
  expect_values(g * Tensor({1.0, 10.0}), {0, 0, 3, 40, 0, 0, 1, 20});
  // Rules of the same ops pass rows on.
  const Tensor v = table();
  GradientTape tape;
  tape.watch(v);
  const Tensor y = sum(take(-(v * 2.0) / 4.0, Tensor({1, 3}), {.axis = 0}));
  const Tensor through = tape.gradient(y, v);
  expect_values(rows_of(through).values, std::vector<double>(6, -0.5));
}

TEST(Slices, TangentsOfModelsScale) {  // spec: SL-05.a, SL-06.a
  struct Model {
    Tensor embedding, bias;
  };
  Model model{table(), Tensor({1.0, 2.0, 3.0})};
  const auto loss = [](const Model& m) {
    return sum(take(m.embedding, Tensor({0, 0}), {.axis = 0}) * m.bias);
  };
  const tangent_t<Model> g = gradient(loss, model);
  const tangent_t<Model> step = -0.5 * g;
  expect_values(rows_of(step.embedding).values, {-0.5, -1, -1.5, -0.5, -1, -1.5});
  move(model, step);
  expect_values(model.embedding.at(0), {0, 0, 0});
  expect_values(model.embedding.at(3), {10, 11, 12});
}

TEST(Slices, AreDifferentiatedAgain) {  // spec: SL-05.b
  const Tensor v = table(), ids({1, 1, 3});
  const auto squares = [&](const Tensor& x) {
    const Tensor t = take(x, ids, {.axis = 0});
    return sum(t * t);
  };
  const std::vector<double> want = {0, 0, 0, 4, 4, 4, 0, 0, 0, 2, 2, 2};
  const auto slope = [&](const Tensor& x) -> Tensor { return gradient(squares, x); };
  expect_values(to_dense(gradient([&](const Tensor& x) { return sum(slope(x)); }, v)), want);
  expect_values(to_dense(hvp(squares, v, ones({4, 3}))), want);
  GradientTape outer;
  outer.watch(v);
  GradientTape inner;
  inner.watch(v);
  const Tensor y = squares(v);
  const Tensor g = inner.gradient(y, v);
  EXPECT_TRUE(g.slices().has_value());
  expect_values(to_dense(outer.gradient(g, v, {.output_gradients = {2.0 * ones({4, 3})}})),
                {0, 0, 0, 8, 8, 8, 0, 0, 0, 4, 4, 4});
  const Tensor h = hessian(squares, v);
  EXPECT_EQ(h.shape(), (Shape{4, 3, 4, 3}));
  expect_values(sum(h, {.axis = {2, 3}}), want);
  GradientTape tape;
  expect_error([&] { tape.watch(g); }, ErrorCode::kInvalidArgument,
               {"watch: a sparse tensor cannot be watched", "to_dense", "slices_test.cc"});
}

TEST(Slices, IndicesOutOfRange) {  // spec: SL-07.a, SL-07.b
  const Tensor v = table();
  for (const DType dtype : {kInt8, kInt32, kInt64}) {
    GradientTape tape;
    tape.watch(v);
    expect_error(
        [&] {
          take(v, astype(Tensor({1, 4}), dtype), {.axis = 0});
        },
        ErrorCode::kOutOfRange, {"take: ", "4", "axis 0", "slices_test.cc"});
    expect_error([&] { take(v, astype(Tensor({-5}), dtype), {.axis = 0}); }, ErrorCode::kOutOfRange,
                 {"-5"});
    EXPECT_EQ(tape.size(), 0U);
    const Tensor y = sum(take(v, astype(Tensor({-1}), dtype), {.axis = 0}));
    expect_values(to_dense(tape.gradient(y, v)), {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1});
  }
  const Tensor wild = make_slices({Tensor({9}), Tensor({{1.0, 1.0}}), Shape{4, 2}});
  Tensor target = zeros({4, 2});
  expect_error([&] { move(target, wild); }, ErrorCode::kOutOfRange, {"9", "4"});
}

TEST(Slices, MovingAddsRepeatedRows) {  // spec: SL-06.a
  Tensor v({{1.0, 1.0}, {1.0, 1.0}});
  const Tensor g = make_slices({Tensor({0, 0}), Tensor({{-0.3, 0.0}, {-0.3, 0.0}}), Shape{2, 2}});
  move(v, g);
  expect_values(v, {0.4, 1, 1, 1});
}

TEST(Jacobian, OfSquares) {  // spec: TP-25, D37
  Tensor x({1.0, 2.0}), rows({{1.0, 2.0}, {3.0, 4.0}});
  for (const bool vectorize : {true, false}) {
    GradientTape tape({.persistent = true});
    tape.watch(std::tie(x, rows));
    const Tensor y = x * x, z = rows * rows;
    tape.stop();
    expect_values(tape.jacobian(y, x, {.vectorize = vectorize}), {2, 0, 0, 4});
    EXPECT_FALSE(tape.jacobian(y, rows, {.vectorize = vectorize}).has_value());
    const Tensor zero =
        tape.jacobian(y, rows, {.unconnected = Unconnected::kZero, .vectorize = vectorize});
    EXPECT_EQ(zero.shape(), (Shape{2, 2, 2}));
    const Tensor batch = tape.batch_jacobian(z, rows, {.vectorize = vectorize});
    EXPECT_EQ(batch.shape(), (Shape{2, 2, 2}));
    expect_values(batch, {2, 0, 0, 4, 6, 0, 0, 8});
    expect_error([&] { tape.batch_jacobian(y, rows); }, ErrorCode::kInvalidArgument,
                 {"[2]", "[2,2]"});
  }
  GradientTape once;
  once.watch(x);
  const Tensor y = x * x;
  expect_error([&] { once.jacobian(y, x, {.vectorize = false}); }, ErrorCode::kFailedPrecondition,
               {"persistent"});
  expect_values(once.jacobian(y, x), {2, 0, 0, 4});
  const auto square = [](const Tensor& t) { return t * t; };
  expect_values(jacobian(square, x), {2, 0, 0, 4});
  expect_values(hessian([](const Tensor& t) { return sum(t * t * t); }, x), {6, 0, 0, 12});
}

TEST(Jacobian, OfComplexTargets) {
  const Tensor x({1.0, 2.0}), z = astype(x, kComplex64);
  GradientTape tape({.persistent = true});
  tape.watch(std::tie(x, z));
  const Tensor y = x * Tensor(std::complex<float>(1, 2)), length = abs(z * z);
  const Tensor parts[] = {real(y), imag(y)};
  tape.stop();
  expect_values(tape.jacobian(parts[0], x), {1, 0, 0, 1});
  expect_values(tape.jacobian(parts[1], x), {2, 0, 0, 2});
  const std::string why =
      ": the target is complex64, but must be real: of a complex element, a tape follows the real "
      "part alone. Take the derivatives of real(target) and of imag(target)";
  expect_error([&] { tape.jacobian(y, x); }, ErrorCode::kInvalidArgument, {"jacobian" + why});
  expect_error([&] { tape.batch_jacobian(y, x); }, ErrorCode::kInvalidArgument,
               {"batch_jacobian" + why});
  // Of a real target by a complex source the rows are gradients, which are complex.
  const Tensor rows = tape.jacobian(length, z);
  EXPECT_EQ(rows.dtype(), kComplex64);
  expect_values(real(rows), {2, 0, 0, 4});
  EXPECT_EQ(tape.jacobian(parts[0], z, {.unconnected = Unconnected::kZero}).dtype(), kComplex64);
}

TEST(Jacobian, OfSparseGradients) {  // spec: SL-05.b
  const Tensor v = table();
  GradientTape tape;
  tape.watch(v);
  const Tensor y = take(v, Tensor({1, 1}), {.axis = 0});
  const Tensor j = tape.jacobian(sum(y, {.axis = 1}), v);
  EXPECT_EQ(j.shape(), (Shape{2, 4, 3}));
  expect_values(sum(j), {6});
}

TEST(Slices, NothingAndNothingIsNone) {  // spec: SL-03.b
  const Tensor v = table(), u = table();
  GradientTape tape;
  tape.watch(std::tie(v, u));
  const Tensor sparse = sum(take(v, Tensor({1}))), dense = sum(v * 2.0);
  EXPECT_FALSE(tape.gradient(std::vector{sparse, dense}, u).has_value());
}

TEST(Slices, OptimisersSumRepeatedRowsFirst) {  // spec: SL-06.b, SL-06.c
  const Tensor twice = make_slices({Tensor({0, 0}), Tensor({{0.1}, {0.1}}), Shape{2, 1}});
  Tensor v = ones({2, 1});
  optim::SGD({.lr = 3}).update(v, twice);
  expect_values(v, {0.4, 1});
  Tensor w = ones({2, 1});
  optim::AdaGrad({.lr = 1, .initial_accumulator = 0.1}).update(w, twice);
  expect_values(w, {1 - 0.2 / std::sqrt(0.1 + 0.2 * 0.2), 1});
}

}  // namespace
}  // namespace etude
