// SPDX-License-Identifier: Apache-2.0
// arange_like and sequence_mask: positions along an axis whose size a graph leaves open.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude::positions_test {
namespace {

using tests::expect_error;
using Numbers = std::vector<int>;
using Floats = std::vector<float>;

TEST(Positions, CountAlongAnAxis) {
  const Tensor x = ones({2, 3});
  EXPECT_EQ(arange_like(x).to_vector<int>(), (Numbers{0, 1}));
  EXPECT_EQ(arange_like(x).dtype(), kInt64);
  EXPECT_EQ(arange_like(x, {.axis = -1}).to_vector<int>(), (Numbers{0, 1, 2}));
  EXPECT_EQ(arange_like(x, {.axis = 1, .dtype = kFloat32}).dtype(), kFloat32);
  EXPECT_EQ(arange_like(zeros({0, 3})).shape(), (Shape{0}));
  expect_error([&] { arange_like(x, {.axis = 2}); }, ErrorCode::kOutOfRange,
               {"arange_like", "axis 2 is outside [-2, 2)", "positions_test.cc"});
}

TEST(Positions, MaskWhatIsBehindTheEnd) {
  const Tensor x = ones({3, 4, 5}), lengths({0, 4, 2});
  const Tensor mask = sequence_mask(lengths, x);
  EXPECT_EQ(mask.dtype(), kBool);
  EXPECT_EQ(mask.shape(), (Shape{3, 4}));
  EXPECT_EQ(mask.to_vector<int>(), (Numbers{0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(sequence_mask(Tensor({1, 9}), x, {.axis = 0}).to_vector<int>(),
            (Numbers{1, 0, 0, 1, 1, 1}));
  EXPECT_EQ(sequence_mask(2, ones({3})).to_vector<int>(), (Numbers{1, 1, 0}));
  EXPECT_EQ(sequence_mask(Tensor({-1, 1}), ones({2, 2})).to_vector<int>(), (Numbers{0, 0, 1, 0}));
  // More steps than int8 counts, and lengths beyond int64.
  EXPECT_EQ(sum(sequence_mask(Tensor(std::vector<int8_t>{100}), ones({1, 300}))).item<int>(), 100);
  EXPECT_EQ(
      sum(sequence_mask(Tensor(std::vector<uint64_t>{~uint64_t{0}}), ones({1, 3}))).item<int>(), 3);
  expect_error(
      [&] {
        sequence_mask(lengths, ones({2, 4}));
      },
      ErrorCode::kInvalidArgument,
      {"sequence_mask", "operand 'lengths' has shape [3] and operand 'x' has shape [2,4]",
       "give the axis of the steps", "positions_test.cc"});
}

// The mean over the steps that are there, with the position as a weight.
Tensor weighted(const Tensor& x, const Tensor& lengths) {
  const Tensor mask = astype(sequence_mask(lengths, x), x.dtype());
  return sum(x * mask * arange_like(x, {.axis = 1, .dtype = kFloat32}));
}

TEST(Positions, ServeOpenSizesWithOneGraph) {
  const auto f = function(
      [](const Tensor& x, const Tensor& lengths) {
        return gradient([&](const Tensor& y) { return weighted(y, lengths); }, x);
      },
      {.signature = Signature{TensorSpec{{kAny, kAny}}, TensorSpec{{kAny}, kInt32}}});
  EXPECT_EQ(f(ones({2, 3}), Tensor({3, 2})).to_vector<float>(), (Floats{0, 1, 2, 0, 1, 0}));
  EXPECT_EQ(f(ones({1, 5}), Tensor({4})).to_vector<float>(), (Floats{0, 1, 2, 3, 0}));
  EXPECT_EQ(f(ones({3, 1}), Tensor({1, 0, 1})).to_vector<float>(), (Floats{0, 0, 0}));
  EXPECT_EQ(f.trace_count(), 1u);
}

TEST(Positions, LazilyAndInBatches) {
  const LazyScope scope;
  EXPECT_EQ(weighted(ones({2, 3}), Tensor({3, 2})).item<float>(), 4);
  const auto rows =
      vmap([](const Tensor& x, const Tensor& length) { return sequence_mask(length, x); });
  EXPECT_EQ(rows(ones({2, 3}), Tensor({3, 1})).to_vector<int>(), (Numbers{1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(vmap([](const Tensor& x) { return arange_like(x); })(ones({2, 3})).to_vector<int>(),
            (Numbers{0, 1, 2, 0, 1, 2}));
}

}  // namespace
}  // namespace etude::positions_test
