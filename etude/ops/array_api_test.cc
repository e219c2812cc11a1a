// SPDX-License-Identifier: Apache-2.0
// The statements of the Python Array API standard (2025.12) on functions that are not element-wise:
// shapes and dtypes of results, empty and zero-dimensional arrays, sizes 0 and 1, keyword forms,
// NaN. Each test is a section of the standard, in the order of its text.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/dtype_functions.h"
#include "etude/ops.h"
#include "tests/expect_error.h"

namespace etude::array_api_test {
namespace {

using tests::expect_error;
using Doubles = std::vector<double>;

const double kNan = std::nan(""), kInf = std::numeric_limits<double>::infinity();

// Fails unless x has this dtype, shape and elements; NaN equals NaN.
void expect_array(const Tensor& x, DType dtype, const Shape& shape, const Doubles& want,
                  int line = __builtin_LINE()) {
  SCOPED_TRACE("line " + std::to_string(line));
  EXPECT_EQ(name(x.dtype()), name(dtype));
  ASSERT_EQ(x.shape(), shape) << x.shape().to_string();
  const Doubles got = x.to_vector<double>();
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) << x.to_string();
  }
}

template <class F>
void expect_axis_error(F&& f) {
  expect_error(f, ErrorCode::kOutOfRange, {"axis"});
}

Tensor of(const Doubles& values) { return Tensor(values); }  // float64, one axis
Tensor empty_of(const Shape& shape, DType dtype = kFloat32) {
  return zeros(shape, {.dtype = dtype});
}

// spec: T1.a
TEST(ArrayApiFunctions, Creation) {
  expect_array(arange(3), kInt32, {3}, {0, 1, 2});
  expect_array(arange(3, {.stop = 1}), kInt32, {0}, {});
  expect_array(arange(1, {.stop = 2, .step = .25}), kFloat32, {4}, {1, 1.25, 1.5, 1.75});
  expect_array(arange(5, {.stop = 0, .step = -2}), kInt32, {3}, {5, 3, 1});
  expect_array(arange(0), kInt32, {0}, {});
  expect_array(arange(2, {.dtype = kFloat64}), kFloat64, {2}, {0, 1});
  expect_array(zeros({}), kFloat32, {}, {0});
  expect_array(ones({0, 2}), kFloat32, {0, 2}, {});
  EXPECT_EQ(empty({2}).dtype(), kFloat32);
  expect_array(full({2}, true), kBool, {2}, {1, 1});
  expect_array(full({}, 2), kInt32, {}, {2});
  expect_array(full({1}, 2.5), kFloat32, {1}, {2.5});
  EXPECT_EQ(full({1}, Tensor(std::complex<double>(1, 2))).dtype(), kComplex64);
  // Value and shape the other way round do not compile.
  static_assert(std::is_convertible_v<int, IntList> && !std::is_convertible_v<double, IntList> &&
                !std::is_convertible_v<bool, IntList>);
  expect_array(full_like(empty_of({2}, kInt64), 7), kInt64, {2}, {7, 7});
  expect_array(full_like(of({1}), 7), kFloat64, {1}, {7});
  expect_array(zeros_like(empty_of({2}, kInt8), {.dtype = kBool}), kBool, {2}, {0, 0});
  expect_array(eye(2, {.cols = 3, .k = 1}), kFloat32, {2, 3}, {0, 1, 0, 0, 0, 1});
  expect_array(eye(2, {.k = -5}), kFloat32, {2, 2}, {0, 0, 0, 0});
  expect_array(eye(0), kFloat32, {0, 0}, {});
  expect_array(real(eye(1, {.dtype = kComplex64})), kFloat32, {1, 1}, {1});
  expect_array(linspace(0, 1, 3), kFloat32, {3}, {0, .5, 1});
  expect_array(linspace(0, 1, 2, {.endpoint = false}), kFloat32, {2}, {0, .5});
  expect_array(linspace(5, 9, 1), kFloat32, {1}, {5});
  expect_array(linspace(5, 9, 0), kFloat32, {0}, {});
  expect_array(linspace(5, 9, 0, {.endpoint = false}), kFloat32, {0}, {});
  expect_error([] { linspace(0, 1, -1); }, ErrorCode::kInvalidArgument,
               {"linspace: ", "num is -1"});
  const std::vector<Tensor> grid = meshgrid({of({1, 2}), of({3, 4, 5})});
  expect_array(grid[0], kFloat64, {3, 2}, {1, 2, 1, 2, 1, 2});
  expect_array(meshgrid({of({1, 2})}, {.indexing = "ij"})[0], kFloat64, {2}, {1, 2});
  EXPECT_TRUE(meshgrid(std::vector<Tensor>()).empty());
  expect_array(tril(ones({2, 2})), kFloat32, {2, 2}, {1, 0, 1, 1});
  expect_array(triu(ones({2, 3}), {.k = 1}), kFloat32, {2, 3}, {0, 1, 1, 0, 0, 1});
  expect_array(triu(ones({1, 2, 2})), kFloat32, {1, 2, 2}, {1, 1, 0, 1});
}

// spec: T23
TEST(ArrayApiFunctions, DataTypes) {
  expect_array(astype(of({1.7, -1.7}), kInt32), kInt32, {2}, {1, -1});
  expect_array(astype(of({0, 2, kNan}), kBool), kBool, {3}, {0, 1, 1});
  expect_array(astype(Tensor({true, false}), kFloat32), kFloat32, {2}, {1, 0});
  expect_error([] { astype(Tensor(std::complex<double>(1, 2)), kFloat32); },
               ErrorCode::kInvalidArgument, {"astype: complex values do not convert to float32"});
  EXPECT_TRUE(can_cast(kInt8, kInt16));
  EXPECT_FALSE(can_cast(kInt16, kInt8));
  const DType i[] = {kInt8, kInt16, kInt32, kInt64}, u[] = {kUInt8, kUInt16, kUInt32, kUInt64};
  const DType mixed[4][3] = {{kInt16, kInt32, kInt64},
                             {kInt16, kInt32, kInt64},
                             {kInt32, kInt32, kInt64},
                             {kInt64, kInt64, kInt64}};
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) {
      EXPECT_EQ(result_type(i[a], i[b]), i[std::max(a, b)]);
      EXPECT_EQ(result_type(u[a], u[b]), u[std::max(a, b)]);
      if (b < 3) {
        EXPECT_EQ(result_type(u[b], i[a]), mixed[a][b]);
      }
    }
  }
  EXPECT_EQ(result_type(kFloat32, kFloat64), kFloat64);
  EXPECT_EQ(result_type(kComplex64, kComplex128), kComplex128);
}

// spec: T6.a
TEST(ArrayApiFunctions, Indexing) {
  const Tensor x({{1, 2, 3}, {4, 5, 6}});
  expect_array(take(x, Tensor({2, -3}), {.axis = 1}), kInt32, {2, 2}, {3, 1, 6, 4});
  expect_array(take(x, empty_of({0}, kInt64), {.axis = -1}), kInt32, {2, 0}, {});
  expect_array(take(of({7, 8}), Tensor({-1})), kFloat64, {1}, {8});
  expect_array(take_along_axis(x, Tensor({{-1, 0}, {1, 1}})), kInt32, {2, 2}, {3, 1, 5, 5});
  expect_array(take_along_axis(x, Tensor({{0}})), kInt32, {2, 1}, {1, 4});
  expect_array(take_along_axis(x, Tensor({{1}, {0}, {0}}), {.axis = 0}), kInt32, {3, 3},
               {4, 5, 6, 1, 2, 3, 1, 2, 3});
  expect_array(take_along_axis(Tensor({{7, 8}}), Tensor({{0}, {1}, {-2}})), kInt32, {3, 1},
               {7, 8, 7});
  expect_array(take_along_axis(x, empty_of({1, 0}, kInt32)), kInt32, {2, 0}, {});
  expect_axis_error([&] { take_along_axis(x, Tensor({{0}}), {.axis = 2}); });
  expect_error(
      [&] {
        take_along_axis(x, Tensor({{0}, {0}, {0}}));
      },
      ErrorCode::kInvalidArgument,
      {"take_along_axis: operand 'x' has shape [2,3] and the indices [3,1]",
       "broadcast on all axes but 1"});
}

// spec: T11
TEST(ArrayApiFunctions, LinearAlgebra) {
  const Tensor a = ones({2, 3}), v = ones({3});
  expect_array(matmul(v, v), kFloat32, {}, {3});
  expect_array(matmul(a, v), kFloat32, {2}, {3, 3});
  expect_array(matmul(v, ones({4, 3, 2})), kFloat32, {4, 2}, {});
  EXPECT_EQ(matmul(ones({5, 1, 2, 3}), ones({4, 3, 2})).shape(), (Shape{5, 4, 2, 2}));
  expect_array(matmul(ones({2, 0}), ones({0, 2})), kFloat32, {2, 2}, {0, 0, 0, 0});
  for (const Tensor& scalar : {Tensor(1.0)}) {
    EXPECT_THROW(matmul(scalar, v), Error);
    EXPECT_THROW(matmul(v, scalar), Error);
  }
  EXPECT_THROW(matmul(v, ones({2})), Error);
  EXPECT_THROW(matmul(a, ones({2, 3})), Error);
  const Tensor z = Tensor(std::vector<std::complex<double>>{{0, 1}});
  EXPECT_EQ(matmul(z, z).item<std::complex<double>>(), std::complex<double>(-1, 0));
  EXPECT_EQ(vecdot(z, z).item<std::complex<double>>(), std::complex<double>(1, 0));
  EXPECT_EQ(matrix_transpose(ones({4, 2, 3})).shape(), (Shape{4, 3, 2}));
  EXPECT_EQ(tensordot(a, v, {0}).shape(), (Shape{2, 3, 3}));
  expect_array(tensordot(a, a, {2}), kFloat32, {}, {6});
  expect_array(tensordot(a, a, {-1, -2, 1, 0}), kFloat32, {}, {6});
  expect_array(vecdot(a, v), kFloat32, {2}, {3, 3});
  expect_array(vecdot(ones({3, 2}), ones({3, 1}), {.axis = -2}), kFloat32, {2}, {3, 3});
  EXPECT_THROW(vecdot(a, ones({2, 1})), Error);  // the contracted axis does not broadcast
}

// spec: T4
TEST(ArrayApiFunctions, Manipulation) {
  const Tensor x({{1, 2, 3}, {4, 5, 6}});
  const std::vector<Tensor> both = broadcast_arrays({x, of({1, 2, 3})});
  expect_array(both[0], kInt32, {2, 3}, {1, 2, 3, 4, 5, 6});
  expect_array(both[1], kFloat64, {2, 3}, {1, 2, 3, 1, 2, 3});
  expect_array(broadcast_to(Tensor(1), {2, 0}), kInt32, {2, 0}, {});
  EXPECT_THROW(broadcast_to(x, {3}), Error);
  expect_array(concat({x, x}, {.axis = -1}), kInt32, {2, 6}, {});
  expect_array(concat({x, Tensor({7})}, {.axis = std::vector<int64_t>()}), kInt32, {7},
               {1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(concat({empty_of({1}, kInt8), empty_of({1}, kInt16)}).dtype(), kInt16);
  expect_array(concat({empty_of({0, 2}), ones({1, 2})}), kFloat32, {1, 2}, {1, 1});
  expect_axis_error([&] { concat({x, x}, {.axis = 2}); });
  EXPECT_EQ(expand_dims(x, {-1, 0}).shape(), (Shape{1, 2, 3, 1}));
  EXPECT_EQ(expand_dims(Tensor(1), {0}).shape(), Shape{1});
  expect_axis_error([&] { expand_dims(x, {3}); });
  expect_array(flip(x), kInt32, {2, 3}, {6, 5, 4, 3, 2, 1});
  expect_array(flip(x, {.axis = -1}), kInt32, {2, 3}, {3, 2, 1, 6, 5, 4});
  expect_axis_error([&] { flip(x, {.axis = -3}); });
  EXPECT_EQ(moveaxis(ones({2, 3, 4}), {0, -1}, {-1, 0}).shape(), (Shape{4, 3, 2}));
  EXPECT_EQ(permute_dims(ones({2, 3, 4}), {-1, 0, 1}).shape(), (Shape{4, 2, 3}));
  expect_array(repeat(x, 2), kInt32, {12}, {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6});
  expect_array(repeat(x, 0, {.axis = -1}), kInt32, {2, 0}, {});
  expect_array(repeat(Tensor(5), 2), kInt32, {2}, {5, 5});
  expect_array(reshape(x, {-1}), kInt32, {6}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(reshape(Tensor(1), {1, 1}).shape(), (Shape{1, 1}));
  EXPECT_EQ(reshape(empty_of({0, 3}), {3, -1}).shape(), (Shape{3, 0}));
  expect_array(roll(x, 1), kInt32, {2, 3}, {6, 1, 2, 3, 4, 5});
  expect_array(roll(x, {1, -1}, {.axis = {0, 1}}), kInt32, {2, 3}, {5, 6, 4, 2, 3, 1});
  expect_array(roll(x, 1, {.axis = {0, 1}}), kInt32, {2, 3}, {6, 4, 5, 3, 1, 2});
  expect_array(roll(empty_of({0}), 3), kFloat32, {0}, {});
  EXPECT_EQ(squeeze(ones({1, 2, 1}), {-1}).shape(), (Shape{1, 2}));
  EXPECT_THROW(squeeze(x, {0}), Error);
  EXPECT_EQ(stack({x, x}, {.axis = -1}).shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(tile(ones({2, 3}), {2}).shape(), (Shape{2, 6}));
  EXPECT_EQ(tile(ones({3}), {2, 2}).shape(), (Shape{2, 6}));
  EXPECT_EQ(tile(ones({2}), std::vector<int64_t>()).shape(), Shape{2});
  EXPECT_EQ(unstack(x, {.axis = -1}).size(), 3u);
  EXPECT_TRUE(unstack(empty_of({0, 2})).empty());
}

// spec: T6.a, T10.a
TEST(ArrayApiFunctions, Searching) {
  const Tensor x({{1, 9, 9}, {4, 5, 6}});
  expect_array(argmax(x), kInt64, {}, {1});
  expect_array(argmax(x, {.axis = 1, .keepdims = true}), kInt64, {2, 1}, {1, 2});
  expect_array(argmin(x, {.keepdims = true}), kInt64, {1, 1}, {0});
  expect_array(argmax(Tensor(3.0)), kInt64, {}, {0});
  expect_array(count_nonzero(Tensor({{true, false}, {true, true}}), {.axis = 0}), kInt64, {2},
               {2, 1});
  expect_array(count_nonzero(of({0, kNan, -0.0}), {.keepdims = true}), kInt64, {1}, {1});
  expect_array(count_nonzero(empty_of({0})), kInt64, {}, {0});
  EXPECT_EQ(nonzero(Tensor({{0, 1}, {2, 0}}))[1].to_vector<int>(), (std::vector<int>{1, 0}));
  EXPECT_THROW(nonzero(Tensor(1)), Error);
  const Tensor sorted({1, 2, 2, 4});
  expect_array(searchsorted(sorted, Tensor({{0, 2}, {4, 5}})), kInt64, {2, 2}, {0, 1, 3, 4});
  expect_array(searchsorted(sorted, Tensor({2, 4}), {.side = "right"}), kInt64, {2}, {3, 4});
  expect_array(searchsorted(empty_of({0}), of({1})), kInt64, {1}, {0});
  expect_array(where(Tensor(true), Tensor({1, 2}), 5), kInt32, {2}, {1, 2});
  EXPECT_EQ(where(Tensor({true}), empty_of({1}, kInt8), empty_of({1}, kInt16)).dtype(), kInt16);
}

// spec: T21.a
TEST(ArrayApiFunctions, Sorting) {
  expect_array(sort(of({3, 1, 2}), {.descending = true}), kFloat64, {3}, {3, 2, 1});
  expect_array(argsort(Tensor({1, 0, 1, 0})), kInt64, {4}, {1, 3, 0, 2});
  expect_array(argsort(Tensor({1, 0, 1, 0}), {.descending = true}), kInt64, {4}, {0, 2, 1, 3});
  expect_array(sort(Tensor({{2, 1}, {1, 3}}), {.axis = 0}), kInt32, {2, 2}, {1, 1, 2, 3});
  expect_array(sort(empty_of({2, 0})), kFloat32, {2, 0}, {});
}

// spec: T10.a
TEST(ArrayApiFunctions, Statistics) {
  const Tensor x({{1.0, 2.0}, {3.0, 4.0}}), none = empty_of({0}), one = of({3});
  expect_array(cumulative_sum(of({1, 2}), {.include_initial = true}), kFloat64, {3}, {0, 1, 3});
  expect_array(cumulative_prod(of({2, 3}), {.include_initial = true}), kFloat64, {3}, {1, 2, 6});
  expect_array(cumulative_sum(x, {.axis = -1}), kFloat32, {2, 2}, {1, 3, 3, 7});
  expect_array(cumulative_sum(none), kFloat32, {0}, {});
  EXPECT_THROW(cumulative_sum(x), Error);  // which axis?
  EXPECT_EQ(cumulative_sum(empty_of({2}, kInt8)).dtype(), kInt32);
  EXPECT_EQ(cumulative_prod(empty_of({2}, kUInt16)).dtype(), kUInt32);
  for (const bool keep : {false, true}) {
    const Shape all = keep ? Shape{1, 1} : Shape{}, rows = keep ? Shape{2, 1} : Shape{2};
    expect_array(max(x, {.keepdims = keep}), kFloat32, all, {4});
    expect_array(min(x, {.axis = {-1}, .keepdims = keep}), kFloat32, rows, {1, 3});
    expect_array(sum(x, {.axis = {0, 1}, .keepdims = keep}), kFloat32, all, {10});
    expect_array(prod(x, {.axis = 1, .keepdims = keep}), kFloat32, rows, {2, 12});
    expect_array(mean(x, {.axis = 1, .keepdims = keep}), kFloat32, rows, {1.5, 3.5});
    expect_array(var(x, {.axis = 1, .keepdims = keep}), kFloat32, rows, {.25, .25});
    expect_array(std(x, {.axis = 1, .keepdims = keep}), kFloat32, rows, {.5, .5});
  }
  expect_array(max(of({1, kNan, 2})), kFloat64, {}, {kNan});
  expect_array(min(of({1, 2, kNan})), kFloat64, {}, {kNan});
  expect_array(sum(none), kFloat32, {}, {0});
  expect_array(prod(none), kFloat32, {}, {1});
  expect_array(mean(none), kFloat32, {}, {kNan});
  expect_array(mean(empty_of({2, 0}), {.axis = 1}), kFloat32, {2}, {kNan, kNan});
  expect_array(mean(of({1, kNan})), kFloat64, {}, {kNan});
  const auto no_mean = mean(empty_of({0}, kComplex64)).item<std::complex<float>>();
  EXPECT_TRUE(std::isnan(no_mean.real()) && std::isnan(no_mean.imag()));
  expect_array(sum(of({kInf, -kInf})), kFloat64, {}, {kNan});
  EXPECT_EQ(sum(empty_of({2}, kInt16)).dtype(), kInt32);
  EXPECT_EQ(prod(empty_of({2}, kUInt8)).dtype(), kUInt32);
  EXPECT_EQ(sum(empty_of({2}, kInt64)).dtype(), kInt64);
  expect_axis_error([&] { sum(x, {.axis = 2}); });
  for (const double correction : {1.0, 1.5, 3.0}) {
    expect_array(var(one, {.correction = correction}), kFloat64, {}, {kNan});
    expect_array(std(one, {.correction = correction}), kFloat64, {}, {kNan});
    expect_array(var(x, {.axis = 0, .correction = correction + 1}), kFloat32, {2}, {kNan, kNan});
  }
  expect_array(var(none), kFloat32, {}, {kNan});
  expect_array(std(none), kFloat32, {}, {kNan});
  expect_array(var(one), kFloat64, {}, {0});
  expect_array(var(of({1, 3}), {.correction = 1.5}), kFloat64, {}, {4});
  expect_array(std(of({1, kNan})), kFloat64, {}, {kNan});
}

// spec: T10.a
TEST(ArrayApiFunctions, Utilities) {
  expect_array(all(empty_of({0})), kBool, {}, {1});
  expect_array(any(empty_of({2, 0}), {.axis = 1}), kBool, {2}, {0, 0});
  expect_array(all(of({kNan, kInf, -kInf})), kBool, {}, {1});
  const Tensor z(std::vector<std::complex<double>>{{0, 1}, {0, 0}});
  expect_array(any(z), kBool, {}, {1});
  expect_array(all(z), kBool, {}, {0});
  expect_array(all(z, {.axis = 0, .keepdims = true}), kBool, {1}, {0});
  expect_axis_error([&] { any(z, {.axis = 1}); });
  expect_array(diff(of({1, 4, 9}), {.n = 2}), kFloat64, {1}, {2});
  expect_array(diff(of({1, 4, 9}), {.n = 0}), kFloat64, {3}, {1, 4, 9});
  expect_array(diff(of({1})), kFloat64, {0}, {});
  expect_array(diff(Tensor({{1, 3}, {4, 9}}), {.axis = 0}), kInt32, {1, 2}, {3, 6});
}

}  // namespace
}  // namespace etude::array_api_test
