// SPDX-License-Identifier: Apache-2.0
// Assignment through a mask: by NumPy's rules, and element by element wherever the value does not
// depend on how many elements the mask chooses, so that it runs in a batch and under derivatives.
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/batch.h"
#include "etude/autodiff/gradient.h"
#include "etude/ops.h"
#include "etude/variables/variable.h"
#include "tests/expect_error.h"
#include "tests/recording.h"

namespace etude::masked_write_test {
namespace {

using Floats = std::vector<float>;
using tests::expect_error;

Tensor iota(const Shape& shape) {
  return reshape(arange(static_cast<double>(shape.count()), {.dtype = kFloat32}), shape);
}
Tensor mask_of(const std::vector<int>& bools, const Shape& shape) {
  return reshape(astype(Tensor(bools), kBool), shape);
}

// spec: T5.b
TEST(MaskedWrite, BroadcastsTheValueToTheChosenElements) {
  const Tensor x = iota({2, 3}), mask = mask_of({1, 0, 1, 0, 0, 1}, {2, 3});
  Tensor y = x;
  y.at(mask) = -1.0;
  EXPECT_EQ(y.to_vector<float>(), (Floats{-1, 1, -1, 3, 4, -1}));
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 1, 2, 3, 4, 5}));
  y = x;
  y.at(mask) = Tensor(Floats{9});  // one element for all
  EXPECT_EQ(y.to_vector<float>(), (Floats{9, 1, 9, 3, 4, 9}));
  y = x;
  y.at(mask) = Tensor({{{9.0F}}});  // axes of size 1 in front do not count
  EXPECT_EQ(y.to_vector<float>(), (Floats{9, 1, 9, 3, 4, 9}));
  y = x;
  y.at(mask) = Tensor(Floats{7, 8, 9});  // one for each that is chosen
  EXPECT_EQ(y.to_vector<float>(), (Floats{7, 1, 8, 3, 4, 9}));
  y = x;
  y.at(mask_of({0, 1}, {2})) = Tensor(Floats{7, 8, 9});  // for the row that is chosen
  EXPECT_EQ(y.to_vector<float>(), (Floats{0, 1, 2, 7, 8, 9}));
  y = x;
  y.at(kAll, mask_of({1, 0, 1}, {3})) = Tensor({{7.0F}, {8.0F}});  // for each row
  EXPECT_EQ(y.to_vector<float>(), (Floats{7, 1, 7, 8, 4, 8}));
  y = x;
  y.at(mask_of({1, 1}, {2}), slice(1, 3)) = Tensor(Floats{7, 8});
  EXPECT_EQ(y.to_vector<float>(), (Floats{0, 7, 8, 3, 7, 8}));
  y = x;
  y.at(1, mask_of({1, 0, 1}, {3})) = 9.0;
  EXPECT_EQ(y.to_vector<float>(), (Floats{0, 1, 2, 9, 4, 9}));
  y = x;
  y.at(kEllipsis, mask_of({1, 0, 1}, {3}), kNewAxis) = Tensor({{{7.0F}}, {{8.0F}}});
  EXPECT_EQ(y.to_vector<float>(), (Floats{7, 1, 7, 8, 4, 8}));
  y = x;
  y.at(Tensor(true)) = Tensor(Floats{7, 8, 9});
  EXPECT_EQ(y.to_vector<float>(), (Floats{7, 8, 9, 7, 8, 9}));
  y.at(Tensor(false)) = 0.0;
  EXPECT_EQ(y.to_vector<float>(), (Floats{7, 8, 9, 7, 8, 9}));
  y.at(mask_of({0, 0, 0, 0, 0, 0}, {2, 3})) = zeros({0});
  EXPECT_EQ(y.to_vector<float>(), (Floats{7, 8, 9, 7, 8, 9}));
}

// spec: T5.b
TEST(MaskedWrite, UpdatesTheChosenElements) {
  const float inf = std::numeric_limits<float>::infinity();
  Tensor x(Floats{1, 2, inf, -0.0F});
  const Tensor mask = mask_of({1, 1, 0, 0}, {4});
  x.at(mask) += 10.0;
  x.at(mask) *= Tensor(Floats{2});
  x.at(mask) -= 1.0;
  EXPECT_EQ(x.to_vector<float>(), (Floats{21, 23, inf, 0}));
  EXPECT_TRUE(std::signbit(x.to_vector<float>()[3]));  // left alone, to the bit
  Tensor counts({1, 2, 3});
  counts.at(counts > 1) *= 5;
  EXPECT_EQ(counts.to_vector<int>(), (std::vector<int>{1, 10, 15}));
  Variable v(Tensor(Floats{1, -2}));
  v.at(v.read() < 0.0) = 0.5;
  EXPECT_EQ(v.read().to_vector<float>(), (Floats{1, 0.5}));
}

// spec: T5.b, D38
TEST(MaskedWrite, RunsInABatch) {
  const Tensor x = iota({3, 4}) - 5.0;
  const auto clipped = [](const Tensor& row) {
    Tensor y = row;
    y.at(y < 0.0) = 0.25;
    y.at(y > 4.0) *= 2.0;
    y.at(y > 3.0, kNewAxis) += reshape(sum(row), {1, 1});
    return y;
  };
  tests::RecordingContext context({&x, 1});
  const Tensor got = vmap(clipped)(x);
  EXPECT_LT(context.finish({&got, 1}).size(), 20u);  // one program for all examples
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(array_equal(got.at(i), clipped(x.at(i))).item<bool>()) << i;
  }
}

// spec: T5.c
TEST(MaskedWrite, HasDerivativesOfBothSides) {
  const Tensor x(Floats{1, -2, 3, -4}), v(3.0F);
  const auto f = [](const Tensor& a, const Tensor& b) {
    Tensor y = a * a;
    y.at(a < 0.0) = b;
    y.at(a > 2.0) *= b;
    y.at(a > 2.0) += b;
    return sum(y);
  };
  const auto [dx, dv] = gradient(f, x, v);
  EXPECT_EQ(dx.to_vector<float>(), (Floats{2, 0, 18, 0}));
  EXPECT_EQ(dv.item<float>(), 2 + 9 + 1);
  const Tensor slope = jvp(f, std::tuple{x, v}, std::tuple{ones({4}), Tensor(1.0F)}).second;
  EXPECT_EQ(slope.item<float>(), 20 + 12);
  // Elements outside of the mask may be infinite: they do not affect the derivative of the value.
  const Tensor far(Floats{std::numeric_limits<float>::infinity(), 2});
  const auto scaled = [&](const Tensor& b) {
    Tensor y = far;
    y.at(mask_of({0, 1}, {2})) *= b;
    return y.at(1).read();
  };
  EXPECT_EQ(gradient(scaled, v).item<float>(), 2);
  const auto of_batch =
      vmap([&](const Tensor& a) { return std::get<0>(gradient(f, a, v)); })(stack({x, -x}));
  EXPECT_EQ(of_batch.at(1).to_vector<float>(), (Floats{0, 4, 0, 24}));
}

// spec: T5.b, T5.d, V22.c
TEST(MaskedWrite, WritesInPlaceAndFailsWhole) {
  Tensor t = zeros({1024, 64});
  const void* before = t.data<float>().data();
  const Tensor mask = equal(full({1024, 64}, 1), 1), row = ones({64});
  {
    MemoryScope scope;
    t.at(mask) = 1.0;
    t.at(mask) += 1.0;
    t.at(mask) *= 3.0;
    t.at(equal(full({1024}, 1), 1)) += row;
    EXPECT_LT(scope.stats().peak_bytes, 16 << 10);
  }
  EXPECT_EQ(t.data<float>().data(), before);
  EXPECT_EQ(t.at(5, 5).item<float>(), 7);
  Tensor x = iota({2, 3});
  expect_error(
      [&] {
        x.at(mask_of({1, 0}, {2})) = Tensor(Floats{1, 2});
      },
      ErrorCode::kInvalidArgument,
      {"at: the value has shape [2], which does not broadcast to the shape [?,3] of the "
       "indexed part",
       "masked_write_test.cc"});
  expect_error(
      [&] {
        x.at(mask_of({1, 0, 1}, {3})) = 1.0;
      },
      ErrorCode::kOutOfRange,
      {"at: the mask has shape [3], but it indexes axes 0 to 0 of shape [2,3]"});
  expect_error([&] { x.at(x > 1.0) = astype(ones({}), kComplex64); }, ErrorCode::kInvalidArgument,
               {"the value is complex64, but the indexed tensor is float32"});
  // A size of 0 fits; the other size differs.
  expect_error(
      [&] {
        x.at(reshape(mask_of({}, {0}), {0, 1})) = 1.0;
      },
      ErrorCode::kOutOfRange,
      {"at: the mask has shape [0,1], but it indexes axes 0 to 1 of shape [2,3]. A mask must have "
       "the sizes of the axes it indexes, or 0"});
  Tensor bools({true, false});
  expect_error([&] { bools.at(bools) += true; }, ErrorCode::kInvalidArgument,
               {"+= and *= need numbers, but the indexed tensor is bool"});
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 1, 2, 3, 4, 5}));
}

// The Array API standard: "The size of each dimension in B must equal the size of the corresponding
// dimension in A or be 0".
TEST(MaskedWrite, AMaskWithoutElementsFitsEachAxis) {
  Tensor x = iota({2, 3});
  const Tensor none = mask_of({}, {0});
  const Tensor square = reshape(none, {0, 0}), mixed = reshape(none, {2, 0});
  EXPECT_EQ(x.at(none).read().shape(), (Shape{0, 3}));
  EXPECT_EQ(x.at(square).read().shape(), (Shape{0}));
  EXPECT_EQ(x.at(mixed).read().shape(), (Shape{0}));
  EXPECT_EQ(x.at(kAll, none).read().shape(), (Shape{2, 0}));
  x.at(none) = 7.0;
  x.at(square) += 7.0;
  x.at(mixed) = Tensor(Floats{});
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 1, 2, 3, 4, 5}));
  const Tensor slope = gradient([&](const Tensor& y) { return sum(y.at(square)); }, x);
  EXPECT_EQ(slope.to_vector<float>(), Floats(6, 0.0F));
}

}  // namespace
}  // namespace etude::masked_write_test
