// SPDX-License-Identifier: Apache-2.0
// Rows of sparse gradients: their dense values, and the ops that keep them as rows.
#include "etude/core/op/slices.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/internal/call.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using internal::slices_operand;
using internal::with_rows;

Tensor rows(const std::vector<int64_t>& indices, const std::vector<double>& values, int64_t width,
            const Shape& dense) {
  IndexedSlices out;
  out.indices = Tensor(indices);
  out.values =
      Tensor(std::span<const double>(values), {static_cast<int64_t>(indices.size()), width});
  out.dense_shape = dense;
  return make_slices(out);
}

TEST(Slices, DenseRowsAreTheSumOfEachIndex) {
  std::mt19937 random(6);
  for (int round = 0; round < 50; ++round) {
    const int64_t height = 1 + static_cast<int64_t>(random() % 6),
                  width = static_cast<int64_t>(random() % 4);
    const auto n = random() % 8;
    std::vector<int64_t> indices;
    std::vector<double> values, want(static_cast<std::size_t>(height * width));
    for (std::size_t i = 0; i < n; ++i) {
      indices.push_back(static_cast<int64_t>(random()) % height);
      for (int64_t k = 0; k < width; ++k) {
        values.push_back(static_cast<double>(random() % 100));
        want[static_cast<std::size_t>(indices.back() * width + k)] += values.back();
      }
    }
    const Tensor sparse = rows(indices, values, width, {height, width});
    ASSERT_TRUE(TensorAccess::is_sparse(sparse));
    const Tensor dense = to_dense(sparse);
    ASSERT_FALSE(TensorAccess::is_sparse(dense));
    ASSERT_EQ(dense.type(), intern_type(kFloat64, {height, width}));
    ASSERT_EQ(dense.to_vector<double>(), want);
  }
}

TEST(Slices, WhatIsDenseComesBackAsItIs) {
  const Tensor x({1.0, 2.0});
  EXPECT_EQ(to_dense(x).ref(), x.ref());
  EXPECT_FALSE(to_dense(Tensor()).has_value());
}

TEST(Slices, RowsOfUnknownHeightStayRows) {
  tests::expect_error(
      [] {
        to_dense(rows({0}, {1, 2}, 2, {kAny, 2}));
      },
      ErrorCode::kFailedPrecondition, {"size of axis 0 of [?,2]", "dense_shape"});
}

TEST(Slices, SizesThatDoNotAgreeAreRefused) {
  const std::vector<double> four = {1, 2, 3, 4};
  tests::expect_error(
      [&] {
        rows({0, 1}, four, 2, {4, 3});
      },
      ErrorCode::kInvalidArgument, {"values [2,2]", "dense_shape [4,3]"});
  tests::expect_error(
      [&] {
        rows({0, 1}, four, 2, {4});
      },
      ErrorCode::kInvalidArgument, {"values [2,2]", "dense_shape [4]"});
  EXPECT_TRUE(rows({0, 1}, four, 2, {kAny, kAny}).has_value());
  IndexedSlices bad;
  bad.indices = Tensor(std::vector<int64_t>{0});
  bad.values = Tensor({{1.0}, {2.0}});
  bad.dense_shape = {4, 1};
  tests::expect_error([&] { make_slices(bad); }, ErrorCode::kInvalidArgument,
                      {"indices [1]", "values [2,1]", "same first size"});
}

int operand_of(std::initializer_list<const Tensor*> operands) {
  return slices_operand(OperandList(operands).view());
}

TEST(Slices, OnlyNumbersMayStandBesideRows) {
  const Tensor sparse = rows({0, 2}, {1, 2, 3, 4}, 2, {4, 2});
  const Tensor number = 2.0, one = Tensor(std::vector<double>{2.0}), row({1.0, 2.0}), absent;
  const Tensor deep(std::vector<double>{2.0}, {1, 1, 1});
  EXPECT_EQ(operand_of({&sparse}), 0);
  EXPECT_EQ(operand_of({&sparse, &number}), 0);
  EXPECT_EQ(operand_of({&number, &sparse}), 1);
  EXPECT_EQ(operand_of({&one, &sparse, &number}), 1);
  EXPECT_EQ(operand_of({&number}), -1);
  EXPECT_EQ(operand_of({&sparse, &sparse}), -1);
  EXPECT_EQ(operand_of({&sparse, &row}), -1);
  EXPECT_EQ(operand_of({&sparse, &deep}), -1);  // the result has an axis more
  EXPECT_EQ(operand_of({&sparse, &absent}), -1);
}

TEST(Slices, OtherValuesKeepTheirPlace) {
  const Tensor sparse = rows({2, 0}, {1, 2, 3, 4}, 2, {4, 2});
  const Tensor other = with_rows(sparse, Tensor({{10.0, 20.0}, {30.0, 40.0}}));
  EXPECT_EQ(to_dense(other).to_vector<double>(), (std::vector<double>{30, 40, 0, 0, 10, 20, 0, 0}));
  EXPECT_EQ(to_dense(sparse).to_vector<double>(), (std::vector<double>{3, 4, 0, 0, 1, 2, 0, 0}));
}

// Negation and scaling work on the rows, with the same result as on dense tensors.
TEST(Slices, OpsOnRowsAreOpsOnWhatTheyAreWorth) {
  const Tensor sparse = rows({2, 0, 2}, {1, 2, 3, 4, 5, 6}, 2, {4, 2});
  const Tensor number = -3.0;
  const Op &multiply = internal::op("multiply"), &negative = internal::op("negative");
  const auto run = [](const Op& op, std::initializer_list<const Tensor*> operands) {
    return execute(op, OperandList(operands).view(), op.default_attrs(), CallSite::here())[0];
  };
  const Tensor dense = to_dense(sparse);
  const Tensor scaled = run(multiply, {&number, &sparse}), negated = run(negative, {&sparse});
  EXPECT_TRUE(TensorAccess::is_sparse(scaled));
  EXPECT_TRUE(TensorAccess::is_sparse(negated));
  // By value: rows that are not there are 0, where an op on zeros may give -0.
  const auto numbers = [](const Tensor& x) { return to_dense(x).to_vector<double>(); };
  EXPECT_EQ(numbers(scaled), numbers(run(multiply, {&number, &dense})));
  EXPECT_EQ(numbers(negated), numbers(run(negative, {&dense})));
  const Tensor row({1.0, 2.0});
  const Tensor product = run(multiply, {&sparse, &row});
  EXPECT_FALSE(TensorAccess::is_sparse(product));
  EXPECT_TRUE(same_value(product, run(multiply, {&dense, &row})));
}

}  // namespace
}  // namespace etude
