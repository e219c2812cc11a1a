// SPDX-License-Identifier: Apache-2.0
// Range-for over the rows of a tensor, in all modes.
#include <cmath>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude::row_loops_test {
namespace {

using tests::expect_error;
using Floats = std::vector<float>;

static_assert(std::input_iterator<RowIterator>);

const Tensor kTable({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}});

// The rows r0, r1, ... as ((r0 / 2 + r1) / 2 + r2) ...: each has another weight.
Tensor folded(const Tensor& x) {
  Tensor h = zeros({x.shape()[1]});
  for (const Tensor& row : x) h = h * 0.5F + row * row;
  return sum(h);
}
// The sum of 1, 9, 25 with weights 1/4, 1/2, 1, and of 4, 16, 36 with the same weights.
constexpr float kFolded = 0.25F + 4.5F + 25 + 1 + 8 + 36;
const Floats kSlopes = {0.5F, 1, 3, 4, 10, 12};

TEST(RowLoops, GiveTheRowsInOrder) {
  std::vector<Floats> rows;
  for (const Tensor& row : kTable) rows.push_back(row.to_vector<float>());
  EXPECT_EQ(rows, (std::vector<Floats>{{1, 2}, {3, 4}, {5, 6}}));
  Floats numbers;
  for (const Tensor& number : kTable.at(1)) {
    EXPECT_EQ(number.rank(), 0);
    numbers.push_back(number.item<float>());
  }
  EXPECT_EQ(numbers, (Floats{3, 4}));
  const Variable v(kTable);
  numbers.clear();
  for (const Tensor& row : v) numbers.push_back(sum(row).item<float>());
  EXPECT_EQ(numbers, (Floats{3, 7, 11}));
  int count = 0;
  for (const Tensor& row : zeros({0, 4})) count += static_cast<int>(row.size()) + 1;
  for (const Tensor& row : zeros({3, 0})) count += static_cast<int>(row.size()) + 1;
  EXPECT_EQ(count, 3);
}

// spec: V10
TEST(RowLoops, AWriteMeanwhileChangesNoRow) {
  Tensor x({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}});
  Floats seen;
  for (const Tensor& row : x) {
    seen.push_back(row.at(0).item<float>());
    x += 10;
    x.at(2, 0) = -1;
  }
  EXPECT_EQ(seen, (Floats{1, 3, 5}));
  EXPECT_EQ(x.to_vector<float>(), (Floats{31, 32, 33, 34, -1, 36}));
}

TEST(RowLoops, HaveDerivatives) {
  EXPECT_EQ(folded(kTable).item<float>(), kFolded);
  EXPECT_EQ(gradient(folded, kTable).to_vector<float>(), kSlopes);
  // The Hessian is diagonal: twice the weights.
  const Tensor along =
      jvp([](const Tensor& x) { return gradient(folded, x); }, kTable, ones({3, 2})).second;
  EXPECT_EQ(along.to_vector<float>(), (Floats{0.5F, 0.5F, 1, 1, 2, 2}));
}

TEST(RowLoops, InGraphsLazilyAndInBatches) {
  const auto staged = function([](const Tensor& x) { return gradient(folded, x); });
  for (int turn = 0; turn < 3; ++turn) EXPECT_EQ(staged(kTable).to_vector<float>(), kSlopes);
  EXPECT_EQ(gradient(function(folded), kTable).to_vector<float>(), kSlopes);
  {
    const LazyScope scope;
    EXPECT_EQ(folded(kTable).item<float>(), kFolded);
    EXPECT_EQ(gradient(folded, kTable).to_vector<float>(), kSlopes);
  }
  const Tensor two = stack({kTable, kTable * 2.0F});
  EXPECT_EQ(vmap(folded)(two).to_vector<float>(), (Floats{kFolded, 4 * kFolded}));
}

TEST(RowLoops, OfWhatHasNoRowsAreErrors) {
  expect_error(
      [] {
        for (const Tensor& row : Tensor(1.0)) static_cast<void>(row);
      },
      ErrorCode::kInvalidArgument,
      {"operand 'x' is a scalar", "Reshape it to [1]", "row_loops_test.cc"});
  expect_error(
      [] {
        for (const Tensor& row : Tensor()) static_cast<void>(row);
      },
      ErrorCode::kFailedPrecondition, {});
  const auto body = [](const Tensor& x) {
    Tensor h = zeros({2});
    for (const Tensor& row : x) h += row;
    return h;
  };
  expect_error(
      [&] {
        function(body, {.signature = Signature{TensorSpec{{kAny, 2}}}})(kTable);
      },
      ErrorCode::kFailedPrecondition, {"looks at the size of axis 0 of arg0", "row_loops_test.cc"});
  // Without a signature each number of rows has its graph.
  const auto staged = function(body);
  EXPECT_EQ(staged(kTable).to_vector<float>(), (Floats{9, 12}));
  EXPECT_EQ(staged(ones({5, 2})).to_vector<float>(), (Floats{5, 5}));
  EXPECT_EQ(staged(ones({4, 2})).to_vector<float>(), (Floats{4, 4}));
}

}  // namespace
}  // namespace etude::row_loops_test
