// SPDX-License-Identifier: Apache-2.0
// Shapes and types: counts, broadcasting against its definition, axes, interning, texts.
#include "etude/core/shape.h"

#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/internal/device_table.h"
#include "etude/core/tensor.h"
#include "etude/core/type.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;

Shape random_shape(std::mt19937& random, int max_rank = 4) {
  Shape shape;
  const auto rank = static_cast<int>(random() % static_cast<unsigned>(max_rank + 1));
  constexpr int64_t kSizes[] = {0, 1, 1, 2, 3};
  for (int i = 0; i < rank; ++i) shape.push_back(kSizes[random() % 5]);
  return shape;
}

std::optional<Shape> broadcast_or_none(const Shape& a, const Shape& b) {
  try {
    return broadcast(a, b);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return std::nullopt;
  }
}

// The definition: sizes counted from the back; a missing or single one follows the other.
std::optional<Shape> broadcast_by_definition(const Shape& a, const Shape& b) {
  std::vector<int64_t> out;
  for (int back = std::max(a.rank(), b.rank()); back >= 1; --back) {
    const int64_t x = back <= a.rank() ? a[a.rank() - back] : 1;
    const int64_t y = back <= b.rank() ? b[b.rank() - back] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out.push_back(x == 1 ? y : x);
  }
  return Shape(out);
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape().count(), 1);
  EXPECT_EQ(Shape({3, 1, 4}).count(), 12);
  EXPECT_EQ(Shape({3, 0, 4}).count(), 0);
  EXPECT_EQ(Shape({3, kAny, 4}).count(), kAny);
  EXPECT_EQ(Shape({0, kAny}).count(), kAny);
  EXPECT_FALSE(Shape({3, kAny}).is_known());
  EXPECT_TRUE(Shape({3, 0}).is_known());
  EXPECT_EQ(Shape({kMaxCount}).count(), kMaxCount);
}

TEST(Shape, TooManyElementsAreRefusedAlsoBesideNothing) {
  const int64_t large = int64_t{1} << 32;
  for (const Shape& shape :
       {Shape({large, large}), Shape({0, large, large}), Shape({large, large, 0}),
        Shape({kAny, large, large}), Shape({kMaxCount, 2})}) {
    expect_error([&] { static_cast<void>(shape.count()); }, ErrorCode::kInvalidArgument,
                 {shape.to_string(), "2^48"});
  }
}

TEST(Shape, BoundsOfRankAndSize) {
  const std::vector<int64_t> most(kMaxRank, 1);
  EXPECT_EQ(Shape(most).rank(), kMaxRank);
  expect_error([&] { Shape(most).push_back(1); }, ErrorCode::kInvalidArgument, {"rank 17"});
  expect_error([&] { Shape(std::vector<int64_t>(kMaxRank + 1, 1)); }, ErrorCode::kInvalidArgument,
               {"rank 17", "16"});
  expect_error([] { Shape({2, -3}); }, ErrorCode::kInvalidArgument, {"size -3 on axis 1"});
}

TEST(Shape, EqualityLooksAtSizesInUseOnly) {
  Shape a({2, 3}), b({2});
  EXPECT_FALSE(a == b);
  b.push_back(3);
  EXPECT_TRUE(a == b);
  a.set(1, 4);
  EXPECT_FALSE(a == b);
  EXPECT_EQ(a.to_vector(), (std::vector<int64_t>{2, 4}));
}

TEST(Shape, BroadcastsByItsDefinition) {
  std::mt19937 random(3);
  int fitting = 0;
  for (int i = 0; i < 20000; ++i) {
    const Shape a = random_shape(random), b = random_shape(random);
    const auto got = broadcast_or_none(a, b), want = broadcast_by_definition(a, b);
    ASSERT_EQ(got.has_value(), want.has_value()) << a.to_string() << b.to_string();
    if (!got) continue;
    ++fitting;
    ASSERT_EQ(got->to_string(), want->to_string()) << a.to_string() << b.to_string();
    ASSERT_EQ(broadcast(b, a).to_string(), want->to_string());
    ASSERT_EQ(broadcast(*got, a).to_string(), want->to_string());
  }
  EXPECT_GT(fitting, 5000);
  EXPECT_LT(fitting, 18000);
}

TEST(Shape, ABroadcastThatFailsNamesTheAxis) {
  expect_error(
      [] {
        broadcast({2, 3, 4}, {5, 1});
      },
      ErrorCode::kInvalidArgument, {"[2,3,4]", "[5,1]", "sizes 3 and 5 on axis -2"});
}

TEST(Shape, AxesCountFromBothEnds) {
  for (int rank = 0; rank <= 4; ++rank) {
    for (int64_t axis = -6; axis <= 6; ++axis) {
      if (axis >= -rank && axis < rank) {
        EXPECT_EQ(normalize_axis(axis, rank), (axis + rank) % rank);
      } else {
        expect_error([&] { normalize_axis(axis, rank); }, ErrorCode::kOutOfRange,
                     {"axis " + std::to_string(axis)});
      }
    }
  }
  const std::vector<int64_t> axes = {-1, 0}, twice = {1, -2};
  EXPECT_EQ(normalize_axes(axes, 3), (std::vector<int>{2, 0}));
  expect_error([&] { normalize_axes(twice, 3); }, ErrorCode::kInvalidArgument, {"twice"});
}

TEST(Type, OneObjectForEqualProperties) {
  std::mt19937 random(4);
  std::set<const Type*> types;
  std::set<std::string> texts;
  for (int i = 0; i < 3000; ++i) {
    const Shape shape = random_shape(random);
    const auto dtype = static_cast<DType>(random() % kDTypeCount);
    const Type* type = intern_type(dtype, shape);
    ASSERT_EQ(type, intern_type(dtype, Shape(shape.sizes())));
    ASSERT_EQ(type->dtype(), dtype);
    ASSERT_TRUE(type->shape() == shape);
    ASSERT_EQ(type->bytes(), type->count() * itemsize(dtype));
    types.insert(type);
    texts.insert(type->to_string());
  }
  EXPECT_EQ(types.size(), texts.size());
  EXPECT_NE(intern_type(kFloat32, {2}),
            intern_type(kFloat32, {2}, internal::device_called("gpu:0")));
  EXPECT_NE(intern_type(kFloat32, {2}),
            intern_type(kFloat32, {2}, internal::device_called("cpu:1")));
  EXPECT_EQ(intern_type(kFloat32, {2, kAny})->bytes(), kAny);
}

TEST(Type, ThreadsGetTheSameObject) {
  constexpr int kThreads = 4, kTypes = 500;
  std::vector<std::vector<const Type*>> seen(kThreads);
  std::vector<std::vector<const void*>> abstract_tensors(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < kTypes; ++i) {
        seen[t].push_back(intern_type(kInt16, {i, 77}));
        abstract_tensors[t].push_back(seen[t].back()->abstract_tensor().ref());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 1; t < kThreads; ++t) {
    EXPECT_EQ(seen[t], seen[0]);
    EXPECT_EQ(abstract_tensors[t], abstract_tensors[0]);
  }
  const std::set<const Type*> distinct(seen[0].begin(), seen[0].end());
  EXPECT_EQ(distinct.size(), static_cast<std::size_t>(kTypes));
}

TEST(Type, ItsTextIsReadBack) {
  std::mt19937 random(5);
  for (int i = 0; i < 500; ++i) {
    Shape shape = random_shape(random);
    if (shape.rank() > 0 && random() % 4 == 0) shape.set(0, kAny);
    const Type* type = intern_type(static_cast<DType>(random() % kDTypeCount), shape);
    ASSERT_EQ(parse_type(type->to_string()), type) << type->to_string();
    ASSERT_EQ(parse_type(shape.to_string(), type->dtype()), type);
  }
}

TEST(Type, WhatIsNoTypeIsQuoted) {
  for (const char* text :
       {"", "float32", "float32[", "float32]", "float33[2]", "float32[2", "float32[2,]",
        "float32[,2]", "float32[2 3]", "float32[x]", "float32[2]]", "[2][3]",
        "float32[99999999999999999999]", "float32[2,,3]", "float32[??]"}) {
    expect_error([&] { parse_type(text); }, ErrorCode::kInvalidArgument, {text, "is no type"});
  }
  expect_error([] { parse_type("float32[-2]"); }, ErrorCode::kInvalidArgument, {"-2"});
}

}  // namespace
}  // namespace etude
