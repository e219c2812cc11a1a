// SPDX-License-Identifier: Apache-2.0
// Values, gradients and messages of the ops that make, reshape, join, gather and scatter arrays.
#include <numeric>

#include <gtest/gtest.h>

#include "etude/autodiff/tape/tape.h"
#include "etude/core/dtype_functions.h"
#include "etude/ops.h"
#include "etude/ops/test_numbers.h"

namespace etude::shape_ops_test {
namespace {

using Doubles = std::vector<double>;
using tests::iota;

void expect(const Tensor& got, const Shape& shape, const Doubles& values, int line) {
  EXPECT_EQ(got.shape(), shape) << "line " << line;
  EXPECT_EQ(got.to_vector<double>(), values) << "line " << line;
}
#define EXPECT_TENSOR(got, shape, ...) expect(got, Shape shape, Doubles __VA_ARGS__, __LINE__)
#define AS(...) \
  { __VA_ARGS__ }

template <class F>
Tensor gradient_of(const Tensor& x, F&& f) {
  Tape tape;
  std::vector<Tensor> targets;
  {
    TapeContext context(tape);
    tape.watch(x);
    targets.push_back(f(x));
  }
  return tape.gradient(targets, std::vector<Tensor>{x})[0];
}

template <class F>
void expect_message(F&& f, std::string_view part) {
  try {
    f();
    ADD_FAILURE() << "no error for " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
    EXPECT_NE(std::string_view(error.what()).find("shape_ops_test.cc:"), std::string_view::npos)
        << error.what();
  }
}

// Short periods, short runs and both sides of a tile of 1024 elements, alone and as operands.
// spec: T4
TEST(Broadcasting, RepeatsElementsOfAllWidths) {
  const Shape shapes[][2] = {{{2}, {700, 2}},      {{3}, {400, 3}},
                             {{1000}, {3, 1000}},  {{1500}, {2, 1500}},
                             {{700, 1}, {700, 2}}, {{90, 1}, {90, 31}},
                             {{40, 1}, {40, 33}},  {{5, 1, 3}, {5, 90, 3}},
                             {{1}, {1300}},        {{2, 1, 3, 1}, {2, 9, 3, 20}}};
  for (const auto& [from, to] : shapes) {
    SCOPED_TRACE(from.to_string() + " to " + to.to_string());
    for (const DType dtype : {kUInt8, kInt16, kFloat32, kFloat64, kComplex128}) {
      const Tensor x = astype(reshape(arange(from.count()), from), dtype);
      // Where each element comes from, by strides.
      std::vector<int64_t> want;
      for (int64_t i = 0; i < to.count(); ++i) {
        int64_t rest = i, at = 0, stride = 1;
        for (int axis = to.rank() - 1; axis >= 0; --axis) {
          const int own = axis - (to.rank() - from.rank());
          const int64_t index = rest % to[axis];
          rest /= to[axis];
          if (own < 0) continue;
          at += from[own] == 1 ? 0 : index * stride;
          stride *= from[own];
        }
        want.push_back(dtype == kUInt8 ? at % 256 : at);
      }
      const Tensor expected = astype(Tensor(want, to), dtype);
      EXPECT_TRUE(same_value(broadcast_to(x, to), expected)) << to_string(dtype);
      EXPECT_TRUE(same_value(x + zeros(to, {.dtype = dtype}), expected)) << to_string(dtype);
    }
  }
}

// spec: T1.a
TEST(Creation, Values) {
  EXPECT_TENSOR(zeros({2}), AS(2), {0, 0});
  EXPECT_EQ(ones({2}, {.dtype = kInt8}).dtype(), kInt8);
  EXPECT_TENSOR(full_like(iota({2}), 3), AS(2), {3, 3});
  EXPECT_TENSOR(arange(4), AS(4), {0, 1, 2, 3});
  EXPECT_EQ(arange(4).dtype(), kInt32);
  EXPECT_EQ(arange(0, {.stop = 1, .step = 0.5}).dtype(), kFloat32);
  EXPECT_TENSOR(arange(5, {.stop = -1, .step = -2}), AS(3), {5, 3, 1});
  EXPECT_EQ(arange(0, {.stop = 1, .step = 0.1}).size(), 10);
  EXPECT_EQ(arange(5, {.stop = 2}).size(), 0);
  // The last integers that doubles hold exactly.
  EXPECT_EQ(arange(9007199254740989, {.stop = 9007199254740992}).to_vector<int64_t>().back(),
            9007199254740991);
  EXPECT_TENSOR(linspace(0, 1, 5), AS(5), {0, .25, .5, .75, 1});
  EXPECT_TENSOR(linspace(0, 1, 4, {.endpoint = false}), AS(4), {0, .25, .5, .75});
  EXPECT_TENSOR(linspace(2, 3, 1), AS(1), {2});
  EXPECT_EQ(linspace(0.1, 0.7, 7).to_vector<float>().back(), 0.7f);
  EXPECT_TENSOR(eye(2, {.cols = 3, .k = 1}), AS(2, 3), {0, 1, 0, 0, 0, 1});
  EXPECT_EQ(eye(2, {.batch_shape = {3}}).shape(), (Shape{3, 2, 2}));
  EXPECT_TENSOR(one_hot(Tensor({1, -1, 3}), 3), AS(3, 3), {0, 1, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_TENSOR(one_hot(Tensor({1, 0}), 2, {.on = 5, .off = -1, .axis = 0}), AS(2, 2),
                {-1, 5, 5, -1});
  EXPECT_TENSOR(tril(iota({2, 3})), AS(2, 3), {0, 0, 0, 3, 4, 0});
  EXPECT_TENSOR(triu(iota({2, 3}), {.k = 1}), AS(2, 3), {0, 1, 2, 0, 0, 5});
  const std::vector<Tensor> grid = meshgrid({iota({2}), iota({3})});
  EXPECT_TENSOR(grid[0], AS(3, 2), {0, 1, 0, 1, 0, 1});
  EXPECT_TENSOR(grid[1], AS(3, 2), {0, 0, 1, 1, 2, 2});
}

// spec: T4, T33
TEST(Shape, Values) {
  const Tensor x = iota({2, 3});
  EXPECT_TENSOR(permute_dims(x, {1, 0}), AS(3, 2), {0, 3, 1, 4, 2, 5});
  EXPECT_TENSOR(flip(x, {.axis = 1}), AS(2, 3), {2, 1, 0, 5, 4, 3});
  EXPECT_TENSOR(roll(x, 1), AS(2, 3), {5, 0, 1, 2, 3, 4});
  EXPECT_TENSOR(roll(x, -1, {.axis = 1}), AS(2, 3), {1, 2, 0, 4, 5, 3});
  EXPECT_TENSOR(tile(iota({2}), {2, 2}), AS(2, 4), {0, 1, 0, 1, 0, 1, 0, 1});
  EXPECT_TENSOR(repeat(iota({2}), 2), AS(4), {0, 0, 1, 1});
  EXPECT_TENSOR(repeat(x, 2, {.axis = 0}), AS(4, 3), {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  EXPECT_TENSOR(concat({x, x}, {.axis = -1}), AS(2, 6), {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  EXPECT_TENSOR(concat({x, iota({1})}, {.axis = std::vector<int64_t>{}}), AS(7),
                {0, 1, 2, 3, 4, 5, 0});
  EXPECT_TENSOR(stack({iota({2}), iota({2})}, {.axis = 1}), AS(2, 2), {0, 0, 1, 1});
  EXPECT_TENSOR(split(x, {1, 2}, {.axis = 1})[1], AS(2, 2), {1, 2, 4, 5});
  EXPECT_TENSOR(split(x, 3, {.axis = 1})[2], AS(2, 1), {2, 5});
  EXPECT_TENSOR(unstack(x)[1], AS(3), {3, 4, 5});
  EXPECT_TENSOR(slice(x, {0, -1}, {2, 0}, {.step = {1, -1}}), AS(2, 2), {2, 1, 5, 4});
  EXPECT_EQ(moveaxis(iota({2, 3, 4}), 0, -1).shape(), (Shape{3, 4, 2}));
  EXPECT_EQ(flatten(iota({2, 3, 4}), {.start = 1}).shape(), (Shape{2, 12}));
  const Tensor g = gradient_of(iota({3}), [](const Tensor& v) {
    return sum(broadcast_to(v, {4, 3}) * Tensor(Doubles{1, 2, 3}));
  });
  EXPECT_TENSOR(g, AS(3), {4, 8, 12});
}

// Sizes at which the blocked, the row-wise and the parallel copies run.
// spec: T4
TEST(Shape, LargeTransposes) {
  for (const Shape& shape : {Shape{300, 517}, Shape{3, 129, 65, 2}, Shape{70000, 3}}) {
    const Tensor x = iota(shape);
    std::vector<int64_t> axes(static_cast<std::size_t>(shape.rank()));
    std::iota(axes.rbegin(), axes.rend(), 0);
    const Tensor y = permute_dims(x, axes);
    EXPECT_TRUE(same_value(permute_dims(y, axes), x)) << shape.to_string();
    const Doubles a = x.to_vector<double>(), b = y.to_vector<double>();
    const int64_t n = shape[shape.rank() - 1], rest = x.size() / n;
    EXPECT_EQ(b[static_cast<std::size_t>((n - 1) * rest)], a[static_cast<std::size_t>(n - 1)])
        << shape.to_string();
    for (const DType dtype : {kInt8, kBFloat16, kFloat32, kComplex128}) {
      const Tensor z = astype(x, dtype);
      EXPECT_TRUE(same_value(permute_dims(z, axes), astype(y, dtype))) << shape.to_string();
    }
    EXPECT_TRUE(same_value(flip(flip(x)), x));
    EXPECT_EQ(flip(x).to_vector<double>()[0], a.back());
  }
}

// spec: T4
TEST(Pad, Modes) {
  const Tensor x = iota({3});
  EXPECT_TENSOR(pad(x, {1, 2}, {.value = 9}), AS(6), {9, 0, 1, 2, 9, 9});
  EXPECT_TENSOR(pad(x, 2, {.mode = "reflect"}), AS(7), {2, 1, 0, 1, 2, 1, 0});
  EXPECT_TENSOR(pad(x, 3, {.mode = "symmetric"}), AS(9), {2, 1, 0, 0, 1, 2, 2, 1, 0});
  EXPECT_TENSOR(pad(x, {0, 2}, {.mode = "edge"}), AS(5), {0, 1, 2, 2, 2});
  EXPECT_TENSOR(pad(x, {4, 1}, {.mode = "wrap"}), AS(8), {2, 0, 1, 2, 0, 1, 2, 0});
  EXPECT_TENSOR(pad(iota({1, 2}), {1, 0, 0, 1}), AS(2, 3), {0, 0, 0, 0, 1, 0});
  EXPECT_TENSOR(gradient_of(x, [](const Tensor& v) { return sum(pad(v, 2, {.mode = "reflect"})); }),
                AS(3), {2, 3, 2});
}

// spec: T6.a, T6.d
TEST(Gather, Values) {
  const Tensor x = iota({2, 3});
  EXPECT_TENSOR(take(x, Tensor({2, -3}), {.axis = 1}), AS(2, 2), {2, 0, 5, 3});
  EXPECT_TENSOR(take_along_axis(x, Tensor({{2}, {0}})), AS(2, 1), {2, 3});
  EXPECT_TENSOR(gather_nd(x, Tensor({{1, 2}, {0, 0}})), AS(2), {5, 0});
  EXPECT_TENSOR(gather_nd(x, Tensor({{2}, {0}}), {.batch_dims = 1}), AS(2), {2, 3});
  EXPECT_TENSOR(boolean_mask(x, Tensor({false, true})), AS(1, 3), {3, 4, 5});
  const std::vector<Tensor> at = nonzero(x);
  EXPECT_TENSOR(at[0], AS(5), {0, 0, 1, 1, 1});
  EXPECT_TENSOR(at[1], AS(5), {1, 2, 0, 1, 2});
  const Tensor sorted(Doubles{1, 2, 2, 3}), values(Doubles{2, 0, 9});
  EXPECT_TENSOR(searchsorted(sorted, values), AS(3), {1, 0, 4});
  EXPECT_TENSOR(searchsorted(sorted, values, {.side = "right"}), AS(3), {3, 0, 4});
  EXPECT_TENSOR(bincount(Tensor({1, 1, 3})), AS(4), {0, 2, 0, 1});
  EXPECT_TENSOR(bincount(Tensor({1, 1, 0}), {.minlength = 4, .weights = Tensor(Doubles{1, 2, 3})}),
                AS(4), {3, 3, 0, 0});
  const auto squares = [&](const Tensor& v) {
    return sum(square(take_along_axis(v, Tensor({{1, 1}, {0, 2}}))));
  };
  EXPECT_TENSOR(gradient_of(x, squares), AS(2, 3), {0, 4, 0, 6, 0, 10});
  const auto masked = [&](const Tensor& v) {
    return sum(square(boolean_mask(v, Tensor({false, true}))));
  };
  EXPECT_TENSOR(gradient_of(x, masked), AS(2, 3), {0, 0, 0, 6, 8, 10});
}

// spec: T6.b
TEST(Scatter, RepeatedIndicesAllCount) {
  const Tensor x(Doubles{1, 2, 3}), at({0, 0, -1}), v(Doubles{5, 4, 2});
  EXPECT_TENSOR(scatter(x, at, v), AS(3), {4, 2, 2});
  EXPECT_TENSOR(scatter(x, at, v, {.mode = "add"}), AS(3), {10, 2, 5});
  EXPECT_TENSOR(scatter(x, at, v, {.mode = "mul"}), AS(3), {20, 2, 6});
  EXPECT_TENSOR(scatter(x, at, v, {.mode = "min"}), AS(3), {1, 2, 2});
  EXPECT_TENSOR(scatter(x, at, v, {.mode = "max"}), AS(3), {5, 2, 3});
}

// spec: T6.c, T6.d
TEST(Segments, Values) {
  const Tensor x(Doubles{1, 2, 3, 4}), ids({1, 0, 1, 9});
  EXPECT_TENSOR(segment_sum(x, ids, 3), AS(3), {2, 4, 0});
  EXPECT_TENSOR(segment_mean(x, ids, 3), AS(3), {2, 2, 0});
  EXPECT_TENSOR(segment_prod(x, ids, 3), AS(3), {2, 3, 1});
  EXPECT_TENSOR(segment_max(x, ids, 3), AS(3), {2, 3, -inf});
  EXPECT_TENSOR(segment_min(x, ids, 3), AS(3), {2, 1, inf});
  const auto product = [&](const Tensor& v) { return sum(segment_prod(v, ids, 3)); };
  EXPECT_TENSOR(gradient_of(Tensor(Doubles{0, 2, 3, 4}), product), AS(4), {3, 1, 0, 0});
  const auto largest = [&](const Tensor& v) {
    return sum(segment_max(v, Tensor({0, 0, 0, 1}), 2));
  };
  EXPECT_TENSOR(gradient_of(Tensor(Doubles{3, 1, 3, 2}), largest), AS(4), {.5, 0, .5, 1});
  // Halves accumulate in float32: 4096 ones would stop at 2048 in float16.
  const Tensor ones16 = ones({4096}, {.dtype = kFloat16});
  EXPECT_EQ(segment_sum(ones16, zeros({4096}, {.dtype = kInt32}), 1).item<float>(), 4096);
}

// spec: T23
TEST(DTypeFunctions, AnswerLikeTheStandard) {
  EXPECT_EQ(finfo(kFloat16).max, 65504);
  EXPECT_EQ(finfo(kFloat32).eps, 0x1p-23);
  EXPECT_EQ(finfo(kFloat32).max, std::numeric_limits<float>::max());
  EXPECT_EQ(finfo(kBFloat16).eps, 0x1p-7);
  EXPECT_EQ(finfo(kComplex128).max, std::numeric_limits<double>::max());
  EXPECT_EQ(finfo(kComplex128).smallest_normal, std::numeric_limits<double>::min());
  EXPECT_EQ(iinfo(kInt64).min, INT64_MIN);
  EXPECT_EQ(iinfo(kInt64).max, static_cast<uint64_t>(INT64_MAX));
  EXPECT_EQ(iinfo(kUInt64).max, UINT64_MAX);
  EXPECT_EQ(iinfo(kInt8).min, -128);
  EXPECT_THROW(finfo(kInt32), Error);
  EXPECT_THROW(iinfo(kFloat32), Error);
  EXPECT_TRUE(can_cast(kInt8, kInt32));
  EXPECT_FALSE(can_cast(kInt32, kInt8));
  EXPECT_FALSE(can_cast(kInt32, kFloat64));
  EXPECT_TRUE(isdtype(kInt8, "integral"));
  EXPECT_FALSE(isdtype(kBool, "numeric"));
  EXPECT_TRUE(isdtype(kBFloat16, "real floating"));
  EXPECT_THROW(isdtype(kBool, "number"), Error);
  EXPECT_EQ(result_type(kInt8, Tensor({1, 2}), kInt16), kInt32);
  EXPECT_EQ(result_type(kInt64, kFloat16), kFloat16);
  EXPECT_THROW(result_type(kInt64, kUInt64), Error);
  EXPECT_EQ(iota({2}).at(newaxis).shape(), (Shape{1, 2}));
  EXPECT_EQ(inf, 1 / 0.0);
  EXPECT_NE(nan, nan);
}

// spec: T39
TEST(Messages, NameOpShapesAndLine) {
  expect_message([] { reshape(iota({2, 3}), 4); }, "reshape: cannot view 6 elements as [4]");
  expect_message(
      [] {
        concat({iota({2, 3}), iota({2, 3, 1})});
      },
      "concat: operand 1 has shape [2,3,1] and operand 0 has shape [2,3]");
  expect_message([] { take(iota({3}), Tensor({3})); },
                 "take: index 3 is out of range for axis 0 of size 3");
  expect_message([] { pad(iota({2}), 2, {.mode = "reflect"}); }, "too large for mode \"reflect\"");
  expect_message([] { pad(Tensor({1}), 1, {.value = 2.5}); },
                 "is 2.5, which is not a number of int");
  expect_message([] { one_hot(Tensor({1}), 2, {.on = 300, .dtype = kUInt8}); }, "on is 300, which");
  expect_message([] { bincount(Tensor({-1})); }, "bincount: operand 'x' holds -1");
  // Messages show numbers beyond int64 as its largest number.
  const Tensor huge(std::vector<uint64_t>{~uint64_t{0}});
  expect_message([&] { bincount(huge); }, "bincount: operand 'x' holds 9223372036854775807");
}

}  // namespace
}  // namespace etude::shape_ops_test
