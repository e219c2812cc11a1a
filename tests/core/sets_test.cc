// SPDX-License-Identifier: Apache-2.0
// Distinct elements and membership, in all modes. Values by hand, and by std::map for random ones.
#include <cmath>
#include <complex>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude::sets_test {
namespace {

using tests::expect_error;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

// spec: T21.b
TEST(Sets, UniqueElementsWithPlacesAndCounts) {
  const Tensor x({{3, 1, 3}, {2, 3, 1}});
  const auto [values, indices, inverse, counts] = unique_all(x);
  EXPECT_EQ(values.to_vector<int>(), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(values.dtype(), kInt32);
  EXPECT_EQ(indices.to_vector<int64_t>(), (Ints{1, 3, 0}));
  EXPECT_EQ(inverse.shape(), (Shape{2, 3}));
  EXPECT_EQ(inverse.to_vector<int64_t>(), (Ints{2, 0, 2, 1, 2, 0}));
  EXPECT_EQ(counts.to_vector<int64_t>(), (Ints{2, 1, 3}));
  EXPECT_TRUE(same_value(take(values, inverse), x));
  EXPECT_TRUE(same_value(unique_values(x), values));
  EXPECT_TRUE(same_value(unique_counts(x).values, values));
  EXPECT_TRUE(same_value(unique_counts(x).counts, counts));
  EXPECT_TRUE(same_value(unique_inverse(x).values, values));
  EXPECT_TRUE(same_value(unique_inverse(x).inverse_indices, inverse));
}

// spec: T21.b
TEST(Sets, UniqueOfSpecialElements) {
  const float nan = std::nanf(""), inf = INFINITY;
  const auto [values, indices, inverse, counts] =
      unique_all(Tensor(Floats{nan, 0.0F, inf, nan, -0.0F, -inf}));
  ASSERT_EQ(values.size(), 5);  // each NaN is distinct, the zeros are equal
  EXPECT_EQ(values.to_vector<float>()[0], -inf);
  EXPECT_EQ(values.to_vector<float>()[1], 0);
  EXPECT_EQ(values.to_vector<float>()[2], inf);
  EXPECT_TRUE(std::isnan(values.to_vector<float>()[3]));
  EXPECT_TRUE(std::isnan(values.to_vector<float>()[4]));
  EXPECT_EQ(indices.to_vector<int64_t>(), (Ints{5, 1, 2, 0, 3}));
  EXPECT_EQ(inverse.to_vector<int64_t>(), (Ints{3, 1, 2, 4, 1, 0}));
  EXPECT_EQ(counts.to_vector<int64_t>(), (Ints{1, 2, 1, 1, 1}));
  const auto none = unique_all(zeros({0, 2}));
  EXPECT_EQ(none.values.shape(), (Shape{0}));
  EXPECT_EQ(none.inverse_indices.shape(), (Shape{0, 2}));
  EXPECT_EQ(none.counts.shape(), (Shape{0}));
  const auto one = unique_all(Tensor(7));
  EXPECT_EQ(one.values.shape(), (Shape{1}));
  EXPECT_EQ(one.inverse_indices.shape(), (Shape{}));
  EXPECT_EQ(one.counts.to_vector<int64_t>(), (Ints{1}));
  const auto bools = unique_counts(Tensor({true, false, true}));
  EXPECT_EQ(bools.values.dtype(), kBool);
  EXPECT_EQ(bools.values.to_vector<int>(), (std::vector<int>{0, 1}));
  EXPECT_EQ(bools.counts.to_vector<int64_t>(), (Ints{1, 2}));
  using C = std::complex<float>;
  const auto numbers =
      unique_counts(Tensor(std::vector<C>{{1, 2}, {0, 1}, {1, -2}, {1, 2}, {0, 1}}));
  EXPECT_EQ(numbers.values.to_vector<C>(), (std::vector<C>{{0, 1}, {1, -2}, {1, 2}}));
  EXPECT_EQ(numbers.counts.to_vector<int64_t>(), (Ints{2, 1, 2}));
  const uint64_t most = ~uint64_t{0};
  EXPECT_EQ(
      unique_values(Tensor(std::vector<uint64_t>{most, most - 1, most})).to_vector<uint64_t>(),
      (std::vector<uint64_t>{most - 1, most}));
}

// spec: T21.b
TEST(Sets, UniqueOfManyElements) {
  std::mt19937 random(3);
  Ints numbers(20000);
  for (int64_t& n : numbers) n = static_cast<int64_t>(random() % 500) - 250;
  std::map<int64_t, int64_t> counted, first;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    ++counted[numbers[i]];
    first.try_emplace(numbers[i], static_cast<int64_t>(i));
  }
  const auto found = unique_all(Tensor(numbers));
  ASSERT_EQ(found.values.size(), static_cast<int64_t>(counted.size()));
  std::size_t at = 0;
  for (const auto& [value, count] : counted) {
    EXPECT_EQ(found.values.to_vector<int64_t>()[at], value);
    EXPECT_EQ(found.counts.to_vector<int64_t>()[at], count);
    EXPECT_EQ(found.indices.to_vector<int64_t>()[at], first[value]);
    ++at;
  }
}

// spec: T21.b
TEST(Sets, Membership) {
  const Tensor x({{1, 2}, {3, 4}}), set({4, 7, 2, 2});
  EXPECT_EQ(isin(x, set).to_vector<int>(), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(isin(x, set).shape(), (Shape{2, 2}));
  EXPECT_EQ(isin(x, set).dtype(), kBool);
  EXPECT_EQ(isin(x, set, {.invert = true}).to_vector<int>(), (std::vector<int>{1, 0, 1, 0}));
  EXPECT_EQ(isin(x, 3).to_vector<int>(), (std::vector<int>{0, 0, 1, 0}));
  EXPECT_EQ(isin(x, zeros({0})).to_vector<int>(), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(isin(zeros({0}), set).shape(), (Shape{0}));
  const float nan = std::nanf("");
  const Tensor special(Floats{nan, -0.0F, INFINITY});
  EXPECT_EQ(isin(special, Tensor(Floats{0.0F, nan, INFINITY})).to_vector<int>(),
            (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(isin(special, Tensor(Floats{nan}), {.invert = true}).to_vector<int>(),
            (std::vector<int>{1, 1, 1}));
}

// spec: T21.b
TEST(Sets, InAllModes) {
  const Tensor x({{5, 1}, {2, 5}}), set({5, 2, 9});
  const std::vector<int> want = {1, 0, 1, 1};
  const auto staged = function([](const Tensor& a, const Tensor& b) { return isin(a, b); });
  EXPECT_EQ(staged(x, set).to_vector<int>(), want);
  EXPECT_EQ(staged(x, set).to_vector<int>(), want);
  const auto open =
      function([](const Tensor& a, const Tensor& b) { return isin(a, b); },
               {.signature = Signature{TensorSpec{{kAny}, kInt32}, TensorSpec{{kAny}, kInt32}}});
  EXPECT_EQ(open(Tensor({1, 9, 2, 7}), set).to_vector<int>(), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(open(Tensor({9}), Tensor({1, 9})).to_vector<int>(), (std::vector<int>{1}));
  EXPECT_EQ(open.trace_count(), 1u);
  {
    const LazyScope scope;
    EXPECT_EQ(isin(x, set).to_vector<int>(), want);
    EXPECT_EQ(unique_values(x * 2).to_vector<int>(), (std::vector<int>{2, 4, 10}));
    EXPECT_EQ((unique_counts(x).counts + 1).to_vector<int>(), (std::vector<int>{2, 2, 3}));
  }
  const auto member = [&](const Tensor& row) { return isin(row, set); };
  EXPECT_EQ(vmap(member)(x).to_vector<int>(), want);
  const auto among = [](const Tensor& row) { return isin(Tensor({5, 1}), row); };
  EXPECT_EQ(vmap(among)(x).to_vector<int>(), (std::vector<int>{1, 1, 1, 0}));
}

// spec: T21.b
TEST(Sets, SizesThatDependOnDataAreRefusedInGraphs) {
  const auto staged = function([](const Tensor& x) { return unique_values(x); });
  expect_error([&] { staged(ones({3})); }, ErrorCode::kUnimplemented,
               {"unique_values", "a size that depends on data", "sets_test.cc"});
}

}  // namespace
}  // namespace etude::sets_test
