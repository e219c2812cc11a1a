// SPDX-License-Identifier: Apache-2.0
// Gradients that hold only the rows touched, and jacobians.
#include "etude/base/warning.h"
#include "etude/ops.h"
#include "etude/runtime/gradient.h"
#include "tests/gradient/expect.h"

namespace etude {
namespace {

using testing::expect_error;
using testing::expect_values;

Tensor table() {
  return Tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}, {7.0, 8.0, 9.0}, {10.0, 11.0, 12.0}});
}

Tensor gradient_of_take(const Tensor& v, const Tensor& ids) {
  GradientTape tape;
  tape.watch(v);
  return tape.gradient(sum(take(v, ids, {.axis = 0})), v);
}

TEST(Slices, TakeGivesRows) {  // spec: SL-01, SL-02, SL-07
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

TEST(Slices, Sums) {  // spec: SL-03
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

TEST(Slices, DensifyingNeedsAShape) {  // spec: SL-04
  const Tensor open = make_slices({Tensor({0}), Tensor({{1.0, 2.0}}), Shape{kAny, 2}});
  expect_error([&] { to_dense(open); }, ErrorCode::kFailedPrecondition, {"axis 0", "dense_shape"});
}

TEST(Slices, MovingAddsRepeatedRows) {  // spec: SL-06
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

TEST(Jacobian, OfSparseGradients) {  // spec: SL-05
  const Tensor v = table();
  GradientTape tape;
  tape.watch(v);
  const Tensor y = take(v, Tensor({1, 1}), {.axis = 0});
  const Tensor j = tape.jacobian(sum(y, {.axis = 1}), v);
  EXPECT_EQ(j.shape(), (Shape{2, 4, 3}));
  expect_values(sum(j), {6});
}

}  // namespace
}  // namespace etude
