// SPDX-License-Identifier: Apache-2.0
// Numbers, lists, arrays and spans of the host where a staged function takes a tensor.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;

// spec: TC-09
TEST(HostData, CountsAsATensor) {
  const auto f = function([](const Tensor& x) { return x * 2; });
  std::vector<float> data(4, 1.0F);
  EXPECT_TRUE(same_value(f(std::span<const float>(data)), 2.0F * ones({4})));
  data.assign(4, 2.0F);
  EXPECT_TRUE(same_value(f(std::span<const float>(data)), 4.0F * ones({4})));
  EXPECT_TRUE(same_value(f(std::span<float>(data).first(4)), 4.0F * ones({4})));
  EXPECT_TRUE(same_value(f(data), 4.0F * ones({4})));
  EXPECT_TRUE(same_value(f(ones({4})), 2.0F * ones({4})));
  const float row[4] = {1, 2, 3, 4};
  EXPECT_TRUE(same_value(f(row), Tensor({2.0, 4.0, 6.0, 8.0})));
  EXPECT_TRUE(same_value(f({1.0, 2.0, 3.0, 4.0}), Tensor({2.0, 4.0, 6.0, 8.0})));
  EXPECT_EQ(f.trace_count(), 1);
}

// spec: TC-09
TEST(HostData, KeepsItsDtype) {
  const auto f = function([](const Tensor& x) { return x; });
  EXPECT_TRUE(same_value(f(std::vector<double>{0.1}), Tensor(std::vector<double>{0.1})));
  EXPECT_TRUE(same_value(f(std::array<int, 3>{1, 2, 3}), Tensor({1, 2, 3})));
  EXPECT_TRUE(same_value(f(std::vector<std::array<int64_t, 2>>{{1, 2}, {3, 4}}),
                         astype(Tensor({{1, 2}, {3, 4}}), kInt64)));
  const uint8_t bytes[2][1] = {{1}, {255}};
  EXPECT_TRUE(same_value(f(bytes), astype(Tensor({{1}, {255}}), kUInt8)));
  EXPECT_TRUE(same_value(f(std::array<bool, 2>{true, false}), Tensor({true, false})));
  EXPECT_EQ(f(std::vector<std::vector<float>>{}).shape(), (Shape{0, 0}));
  EXPECT_TRUE(same_value(f({{0}, {1.0}, {1}}), Tensor({{0.0}, {1.0}, {1.0}})));
  EXPECT_TRUE(same_value(f(2), Tensor(2)));
  EXPECT_TRUE(same_value(f(2.5), Tensor(2.5F)));
  EXPECT_TRUE(same_value(f(true), Tensor(true)));
}

TEST(HostData, LeavesOtherArgumentsAsTheyAre) {
  const auto f = function([](Tensor x, const std::vector<int>& axes, Tensor& y, const Tensor& z) {
    y += z;
    x += 1.0F;
    return sum(x) * static_cast<float>(axes.size()) * y;
  });
  Tensor y(1.0F);
  const Variable v(3.0);
  const Tensor x = ones({2, 3});
  EXPECT_EQ(f(x, {0, 1}, y, v).item<float>(), 96);
  EXPECT_EQ(f(x, {0, 1}, y, Tensor(1.0F)).item<float>(), 120);
  EXPECT_TRUE(same_value(x, ones({2, 3})));
  EXPECT_EQ(f.trace_count(), 1);
  const auto same = function([](Tensor a, Tensor b) { return a * b; });
  EXPECT_EQ(same(y, y).item<float>(), 25);
  EXPECT_EQ(gradient([&](const Tensor& a) { return same(a, 3.0F); }, y).item<float>(), 3);
}

// spec: SG-02
TEST(HostData, TakesTheDtypeOfASignature) {
  const auto f =
      function([](const Tensor& x) { return x; }, {.signature = Signature{TensorSpec{{kAny, 1}}}});
  const Tensor want({{0.0}, {1.0}, {1.0}});
  EXPECT_TRUE(same_value(f({{0}, {1.0}, {1}}), want));
  EXPECT_TRUE(same_value(f({{0}, {1}, {1}}), want));
  EXPECT_TRUE(same_value(f(std::vector<std::vector<double>>{{0}, {1}, {1}}), want));
  EXPECT_TRUE(same_value(f(std::vector<std::array<int, 1>>{{0}, {1}, {1}}), want));
  EXPECT_EQ(f.trace_count(), 1);

  // Rounded once, to the dtype of the spec at the position of the data.
  const auto g = function(
      [](const std::vector<Tensor>&, int, const Tensor& b, const Tensor& c) { return b + c; },
      {.signature = Signature{TensorSpec{{}}, TensorSpec{{}}, TensorSpec{{}, kFloat64},
                              TensorSpec{{}, kFloat64}}});
  const std::vector<Tensor> two = {Tensor(1.0F), Tensor(1.0F)};
  EXPECT_EQ(g(two, 0, 0.1, 0.2).item<double>(), 0.1 + 0.2);
  const auto big = function([](const Tensor& x) { return x; },
                            {.signature = Signature{TensorSpec{{kAny}, kInt64}}});
  const int64_t most = INT64_MAX;
  EXPECT_EQ(big({most, int64_t{-1}}).to_vector<int64_t>(), (std::vector<int64_t>{most, -1}));
  EXPECT_EQ(big({2.0, 3}).to_vector<int>(), (std::vector<int>{2, 3}));
}

// spec: SG-03.a
TEST(HostData, MustFitTheSignature) {
  const auto with = [](DType dtype) {
    return function(
        [](const Tensor& x) { return x; },
        {.name = "f", .arg_names = {"x"}, .signature = Signature{TensorSpec{{kAny, 1}, dtype}}});
  };
  const auto f = with(kFloat32);
  expect_error(
      [&] {
        f({{0}, {1, 2}});
      },
      ErrorCode::kInvalidArgument,
      {"argument 'x' of function 'f'", "not rectangular", "level 1 has 1 and 2 items",
       "host_data_test.cc"});
  expect_error(
      [&] {
        f(std::vector<std::vector<int>>{{0}, {1, 2}});
      },
      ErrorCode::kInvalidArgument,
      {"argument 'x' of function 'f'", "not rectangular", "level 1 has 1 and 2 items"});
  expect_error(
      [&] {
        f({1.0, 2.0});
      },
      ErrorCode::kInvalidArgument, {"function 'f' takes (float32[?,1])", "given (float32[2])"});
  expect_error([&] { f({{1e300}}); }, ErrorCode::kInvalidArgument,
               {"element [0,0] is 1e+300, which float32 does not hold"});
  expect_error(
      [&] {
        with(kUInt8)(std::vector<std::array<int, 1>>{{1}, {300}});
      },
      ErrorCode::kInvalidArgument,
      {"argument 'x' of function 'f': element [1,0] is 300, which uint8 does not hold",
       "another dtype in the signature"});
  expect_error([&] { with(kUInt64)({{-1}}); }, ErrorCode::kInvalidArgument,
               {"element [0,0] is -1, which uint64 does not hold"});
  expect_error(
      [&] {
        with(kInt64)({{1}, {1.5}});
      },
      ErrorCode::kInvalidArgument, {"element [1,0] is 1.5, which int64 does not hold"});
  expect_error([&] { with(kBool)({{2}}); }, ErrorCode::kInvalidArgument,
               {"element [0,0] is 2, which bool does not hold"});
  // Tensors are not converted.
  expect_error(
      [&] {
        f(Tensor({{0}, {1}}));
      },
      ErrorCode::kInvalidArgument, {"takes (float32[?,1])", "given (int32[2,1])"});
}

}  // namespace
}  // namespace etude
