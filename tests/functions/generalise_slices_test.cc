// SPDX-License-Identifier: Apache-2.0
// Staged functions at many sizes whose bodies read and write slices: one graph serves all of them.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::contains;
using tests::expect_error;

// Rows of n, in which element c of row r is 4 r + c.
Tensor numbers(int64_t n) { return arange(static_cast<double>(n), {.dtype = kFloat32}); }
Tensor rows_of(int64_t n) { return reshape(numbers(4 * n), {n, 4}); }

// A body, and the expected element of its result for row r of n, from the element x of its input.
struct SliceCase {
  std::string name;
  std::function<Tensor(const Tensor&)> body;
  std::function<float(int64_t n, int64_t r, float x)> expected;
};

Tensor updated(const Tensor& x, const Slice& part, float factor, float term) {
  Tensor y = x;
  y.at(part) *= factor;
  y.at(part) += term;
  return y;
}

std::vector<SliceCase> write_cases() {
  const auto write = [](const char* name, const Slice& part, auto is_inside) {
    return SliceCase{
        name, [=](const Tensor& x) { return updated(x, part, 2.0F, 1.0F); },
        [=](int64_t n, int64_t r, float x) { return is_inside(n, r) ? 2 * x + 1 : x; }};
  };
  std::vector<SliceCase> out = {
      write("every second", slice({}, {}, 2), [](int64_t, int64_t r) { return r % 2 == 0; }),
      write("every second from 1", slice(1, {}, 2), [](int64_t, int64_t r) { return r % 2 == 1; }),
      write("every third backwards", slice({}, {}, -3),
            [](int64_t n, int64_t r) { return (n - 1 - r) % 3 == 0; }),
      write("at most six", slice({}, 6), [](int64_t, int64_t r) { return r < 6; }),
      write("the last six", slice(-6, {}), [](int64_t n, int64_t r) { return r >= n - 6; }),
      write("without ends", slice(1, -1), [](int64_t n, int64_t r) { return r > 0 && r < n - 1; }),
  };
  out.push_back({"the last",
                 [](const Tensor& x) {
                   Tensor y = x;
                   y.at(-1) = 7.0F;
                   return y;
                 },
                 [](int64_t n, int64_t r, float x) { return r == n - 1 ? 7.0F : x; }});
  out.push_back({"reversed",
                 [](const Tensor& x) {
                   Tensor y = x;
                   y.at(slice({}, {}, -1)) = x * 0.5F;
                   return y;
                 },
                 [](int64_t n, int64_t r, float x) {
                   return 0.5F * (x + 4 * static_cast<float>(n - 1 - 2 * r));
                 }});
  return out;
}

void expect_rows(const SliceCase& c, int64_t n, const std::vector<float>& got) {
  ASSERT_EQ(got.size(), static_cast<std::size_t>(4 * n)) << c.name;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto r = static_cast<int64_t>(i / 4);
    EXPECT_EQ(got[i], c.expected(n, r, static_cast<float>(i))) << c.name << " " << n << " " << i;
  }
}

TEST(GeneraliseSlices, OneGraphWritesAllSizes) {
  for (const SliceCase& c : write_cases()) {
    const auto f = function(c.body);
    for (const int64_t n : {13, 15, 8, 33, 3, 4, 9, 5}) {
      expect_rows(c, n, f(rows_of(n)).to_vector<float>());
    }
    EXPECT_EQ(f.trace_count(), 2u) << c.name << "\n" << f.explain();
    const auto from_small = function(c.body);
    for (const int64_t n : {3, 4, 13, 8, 33}) {
      expect_rows(c, n, from_small(rows_of(n)).to_vector<float>());
    }
  }
}

// Ends beyond the sizes that were seen first.
TEST(GeneraliseSlices, ASliceThatIsAllOfSmallSizesIsNotAllOfLargeOnes) {
  const auto first = function([](const Tensor& x) { return sum(x.at(slice({}, 6))); });
  const auto last = function([](const Tensor& x) { return sum(x.at(slice(-6, {}))); });
  const auto lowered = function([](const Tensor& x) { return sum(slice(x, {0}, {6})); });
  for (const int64_t n : {3, 4, 9, 40, 6}) {
    const auto want = static_cast<float>(std::min<int64_t>(n, 6));
    EXPECT_EQ(first(ones({n})).item<float>(), want) << n;
    EXPECT_EQ(last(ones({n})).item<float>(), want) << n;
    EXPECT_EQ(lowered(ones({n})).item<float>(), want) << n;
  }
}

TEST(GeneraliseSlices, WritesAreTheSameLazily) {
  for (const SliceCase& c : write_cases()) {
    const LazyScope scope;
    for (const int64_t n : {13, 15, 8, 33, 3, 4}) {
      const Tensor x = rows_of(n) + 0.0F;
      expect_rows(c, n, c.body(x).to_vector<float>());
    }
  }
}

// Sizes of results that are no multiples of the sizes.
TEST(GeneraliseSlices, OneGraphReadsAllSizes) {
  const auto f = function([](const Tensor& x) {
    return sum(x.at(slice(1, {}, 2))) + 1000.0F * sum(x.at(slice({}, 6))) +
           sum(x.at(slice(-1, {}, -4)) * 0.0F);
  });
  for (const int64_t n : {13, 17, 8, 33, 40, 10, 9}) {
    float odd = 0, first = 0;
    for (int64_t r = 0; r < n; ++r) {
      const auto row = static_cast<float>(16 * r + 6);
      if (r % 2 == 1) odd += row;
      if (r < 6) first += row;
    }
    EXPECT_EQ(f(rows_of(n)).item<float>(), odd + 1000 * first) << n;
  }
  EXPECT_EQ(f.trace_count(), 2u) << f.explain();
}

// 1 over the size of a part is a number of the graph: it never belongs to another size.
TEST(GeneraliseSlices, MeansOfPartsAreRight) {
  const auto odd = function([](const Tensor& x) { return mean(x.at(slice(1, {}, 2))); });
  const auto capped = function([](const Tensor& x) { return mean(x.at(slice({}, 6))); });
  const auto slope = function([](const Tensor& x) {
    return gradient([](const Tensor& v) { return mean(v.at(slice(1, {}, 2))); }, x);
  });
  for (const int64_t n : {4, 8, 5, 9, 6, 33, 12}) {
    const Tensor x = numbers(n);
    EXPECT_EQ(odd(x).item<float>(), static_cast<float>(n / 2)) << n;
    EXPECT_EQ(capped(x).item<float>(), static_cast<float>(std::min<int64_t>(n, 6) - 1) / 2) << n;
    std::vector<float> expected(static_cast<std::size_t>(n));
    for (std::size_t i = 1; i < expected.size(); i += 2) {
      expected[i] = 1.0F / static_cast<float>(n / 2);
    }
    EXPECT_EQ(slope(x).to_vector<float>(), expected) << n;
  }
}

TEST(GeneraliseSlices, GradientsOfClampedParts) {
  const auto slope = function([](const Tensor& x) {
    return gradient([](const Tensor& v) { return sum(square(v.at(slice(-6, {})))); }, x);
  });
  for (const int64_t n : {3, 4, 9, 6, 40}) {
    const std::vector<float> got = slope(numbers(n)).to_vector<float>();
    for (int64_t i = 0; i < n; ++i) {
      const auto k = static_cast<std::size_t>(i);
      EXPECT_EQ(got[k], i >= n - 6 ? 2.0F * static_cast<float>(i) : 0.0F) << n << " " << i;
    }
  }
}

TEST(GeneraliseSlices, AnIndexThatIsOutsideAtASizeIsAnErrorThere) {
  const auto f = function([](const Tensor& x) {
    Tensor y = x;
    y.at(5) = 1.0F;
    return y;
  });
  for (const int64_t n : {8, 9, 6}) {
    std::vector<float> expected(static_cast<std::size_t>(n));
    expected[5] = 1;
    EXPECT_EQ(f(zeros({n})).to_vector<float>(), expected);
  }
  expect_error([&] { f(zeros({4})); }, ErrorCode::kOutOfRange,
               {"index 5 is out of range for axis 0 of size 4"});
}

// spec: TC-14.a
TEST(GeneraliseSlices, StridedWindowsHaveOneGraph) {
  const auto pool = function([](const Tensor& x) { return nn::max_pool2d(x, {2, 2}); });
  for (const int64_t n : {8, 10, 9, 11, 20}) {
    const Tensor y = pool(reshape(numbers(n * n), {1, n, n, 1}));
    ASSERT_EQ(y.shape(), Shape({1, n / 2, n / 2, 1})) << n;
    EXPECT_EQ(y.at(0, 1, 1, 0).item<float>(), static_cast<float>(3 * n + 3)) << n;
  }
  EXPECT_EQ(pool.trace_count(), 2u) << pool.explain();
}

TEST(GeneraliseSlices, ExplainsWhyAGraphForAllSizesDoesNotServe) {
  const auto f = function([](const Tensor& x) { return mean(x, {.axis = {0}}); });
  for (const Shape& shape : {Shape({4, 8}), Shape({8, 16}), Shape({3, 4})}) f(ones(shape));
  ASSERT_EQ(f.trace_count(), 3u) << f.explain();
  EXPECT_TRUE(contains(f.explain(), "; the graph for other sizes does not serve it: "))
      << f.explain();
}

}  // namespace
}  // namespace etude
