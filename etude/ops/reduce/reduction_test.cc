// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <complex>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "etude/device/cpu/parallel.h"
#include "etude/ops.h"
#include "etude/ops/gradient_of.h"

namespace etude::reduction_test {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

Tensor random_tensor(const Shape& shape, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  for (float& v : values) v = uniform(random);
  return Tensor(values, shape);
}

// Sums over axes one element after the other, in double.
std::vector<double> direct_sum(const Tensor& x, const Ints& axes) {
  const Shape& shape = x.shape();
  std::vector<bool> reduced(static_cast<std::size_t>(shape.rank()));
  int64_t count = 1;
  for (const int64_t axis : axes) reduced[static_cast<std::size_t>(axis)] = true;
  for (int axis = 0; axis < shape.rank(); ++axis)
    count *= reduced[static_cast<std::size_t>(axis)] ? 1 : shape[axis];
  std::vector<double> out(static_cast<std::size_t>(count), 0);
  const std::vector<double> values = x.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t at = 0, stride = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (!reduced[static_cast<std::size_t>(axis)]) {
        at += rest % shape[axis] * stride;
        stride *= shape[axis];
      }
      rest /= shape[axis];
    }
    out[static_cast<std::size_t>(at)] += values[i];
  }
  return out;
}

struct Case {
  Shape shape;
  Ints axes;
};

// Both sides of every limit of the kernels: vectors, blocks of 4096, strips, groups of rows,
// passes.
const Case kCases[] = {{{1}, {0}},
                       {{15}, {0}},
                       {{16}, {0}},
                       {{17}, {0}},
                       {{64}, {0}},
                       {{65}, {0}},
                       {{4095}, {0}},
                       {{4096}, {0}},
                       {{4097}, {0}},
                       {{100003}, {0}},
                       {{3, 5000}, {1}},
                       {{5000, 3}, {0}},
                       {{127, 3}, {0}},
                       {{129, 31}, {0}},
                       {{129, 33}, {0}},
                       {{700, 1500}, {0}},
                       {{2, 300, 1025}, {1}},
                       {{7, 5, 3, 9}, {0, 2}},
                       {{7, 5, 3, 9}, {1, 3}},
                       {{4, 3, 2, 3, 4, 5}, {0, 2, 4}},
                       {{2, 3}, {}}};

// spec: T10.a
TEST(Sum, EqualsDirectSumsForAllLayouts) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.shape.to_string());
    const Tensor x = random_tensor(c.shape);
    const std::vector<double> want = direct_sum(x, c.axes);
    const double scale =
        std::sqrt(static_cast<double>(c.shape.count()) / static_cast<double>(want.size()));
    expect_near(sum(x, {.axis = c.axes}), want, 1e-6 * (scale + 1));
    expect_near(sum(astype(x, kFloat64), {.axis = c.axes}), want, 1e-12 * (scale + 1));
    const Tensor whole = astype(x * 1000, kInt32);
    const std::vector<double> counts = direct_sum(whole, c.axes);
    EXPECT_EQ(sum(whole, {.axis = c.axes}).to_vector<double>(), counts);
  }
}

// spec: T10.a
TEST(Reductions, HalfTypesRoundTheFloat32Result) {
  for (const DType half : {kFloat16, kBFloat16}) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(std::string(name(half)) + c.shape.to_string());
      const Tensor x = astype(random_tensor(c.shape), half), wide = astype(x, kFloat32);
      const auto rounded = [&](const Tensor& y) { return astype(y, half); };
      EXPECT_TRUE(same_value(sum(x, {.axis = c.axes}), rounded(sum(wide, {.axis = c.axes}))));
      EXPECT_TRUE(same_value(mean(x, {.axis = c.axes}), rounded(mean(wide, {.axis = c.axes}))));
      EXPECT_TRUE(same_value(prod(x, {.axis = c.axes}), rounded(prod(wide, {.axis = c.axes}))));
      EXPECT_TRUE(same_value(max(x, {.axis = c.axes}), rounded(max(wide, {.axis = c.axes}))));
      EXPECT_TRUE(same_value(min(x, {.axis = c.axes}), rounded(min(wide, {.axis = c.axes}))));
    }
  }
}

// spec: T10.b
TEST(Sum, HasTheSameBitsForAnyNumberOfThreads) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.shape.to_string());
    const Tensor x = random_tensor(c.shape);
    std::vector<Tensor> results;
    for (const int threads : {1, 2, 7}) {
      set_thread_count(threads);
      results.push_back(sum(x, {.axis = c.axes}));
    }
    set_thread_count(0);
    EXPECT_TRUE(same_value(results[0], results[1]));
    EXPECT_TRUE(same_value(results[0], results[2]));
  }
}

// The tree is a promise: compiled code sums in the same order.
// spec: T10.a
TEST(Sum, FollowsTheFixedTree) {
  const Tensor x = random_tensor({4096 * 2 + 100});
  const Floats v = x.to_vector<float>();
  Floats blocks;
  for (std::size_t from = 0; from < v.size(); from += 4096) {
    float partial[64];
    for (float& p : partial) p = -0.0f;
    for (std::size_t i = from; i < std::min(v.size(), from + 4096); ++i)
      partial[(i - from) % 64] += v[i];
    for (int width = 32; width >= 1; width /= 2) {
      for (int j = 0; j < width; ++j) partial[j] += partial[j + width];
    }
    blocks.push_back(partial[0]);
  }
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(sum(x).item<float>(), (blocks[0] + blocks[1]) + blocks[2]);
}

// Rows that are reduced side by side have the bits of rows that are reduced alone, by the tree
// written out here; zeros of both signs, infinities and NaN among them.
// spec: T10.a
TEST(Reductions, OfManyShortRowsFollowTheTreeOfOne) {
  using Fold = float (*)(float, float);
  struct Kind {
    Tensor (*reduce)(const Tensor&, int64_t);
    Fold fold;
  };
  const Kind kinds[] = {
      {[](const Tensor& x, int64_t a) { return sum(x, {.axis = {a}}); },
       [](float a, float b) { return a + b; }},
      {[](const Tensor& x, int64_t a) { return prod(x, {.axis = {a}}); },
       [](float a, float b) { return a * b; }},
      {[](const Tensor& x, int64_t a) { return max(x, {.axis = {a}}); },
       [](float a, float b) { return a != a  ? a
                                     : a > b ? a
                                             : b; }},
      {[](const Tensor& x, int64_t a) { return min(x, {.axis = {a}}); },
       [](float a, float b) { return a != a  ? a
                                     : a < b ? a
                                             : b; }},
  };
  const float specials[] = {0.0F, -0.0F, HUGE_VALF, -HUGE_VALF, std::nanf("")};
  std::mt19937 random(5);
  for (int64_t n = 1; n <= 18; ++n) {
    for (const int64_t rows : {1, 7, 8, 15, 16, 17, 33, 200}) {
      Floats values = random_tensor({rows, n}, static_cast<uint32_t>(n)).to_vector<float>();
      for (float& v : values) {
        if (random() % 6 == 0) v = specials[random() % 5];
      }
      for (const Kind& kind : kinds) {
        const Floats got = kind.reduce(Tensor(values, {rows, n}), 1).to_vector<float>();
        for (int64_t row = 0; row < rows; ++row) {
          Floats tree(values.begin() + row * n, values.begin() + (row + 1) * n);
          for (std::size_t width : {32, 16, 8, 4, 2, 1}) {
            for (std::size_t j = 0; j < width && j + width < tree.size(); ++j) {
              tree[j] = kind.fold(tree[j], tree[j + width]);
            }
          }
          const float have = got[static_cast<std::size_t>(row)], want = tree[0];
          const bool same = have != have ? want != want
                                         : have == want && std::signbit(have) == std::signbit(want);
          ASSERT_TRUE(same) << n << " of row " << row << " of " << rows << ": " << have << ", not "
                            << want;
        }
      }
    }
  }
}

// spec: T10.a
TEST(Sum, IsExactWhereItCanBeAndAccurateElsewhere) {
  // Equal numbers fold exactly, so that only the 63 additions of a partial round.
  float partial = 0;
  for (int i = 0; i < 64; ++i) partial += 0.1f;
  EXPECT_EQ(sum(Tensor(Floats(1 << 20, 0.1f))).item<float>(), partial * (1 << 14));
  const Tensor halves = astype(Tensor(Floats(5000, 1.0f)), kBFloat16);
  EXPECT_EQ(sum(halves).dtype(), kBFloat16);
  EXPECT_EQ(sum(halves).item<float>(), 4992);  // 5000 rounded once to 8 bits
}

// An element passes through at most 63 additions of its partial, 6 folds of the partials and
// log2(blocks) folds of blocks; each rounds by at most u = 2^-24 of its result. So the error is
// below g / (1 - g) times the sum of magnitudes, g = depth * u (Higham 2002, section 4.2).
// spec: T10.a
TEST(Sum, StaysWithinTheErrorBoundOfItsTree) {
  const auto error_over_bound = [](const Tensor& x) {
    const int64_t blocks = (x.size() + 4095) / 4096;
    const double depth = 63 + 6 + std::ceil(std::log2(static_cast<double>(blocks)));
    const double g = depth * std::ldexp(1.0, -24);
    long double exact = 0, magnitude = 0;
    for (const float v : x.to_vector<float>()) {
      exact += v;
      magnitude += std::abs(v);
    }
    const double error = std::abs(static_cast<double>(exact - sum(x).item<float>()));
    return error / (g / (1 - g) * static_cast<double>(magnitude));
  };
  for (const int64_t n : {2, 63, 64, 65, 4095, 4097, 100'000, 1 << 20}) {
    EXPECT_LE(error_over_bound(random_tensor({n})), 1) << n;
    EXPECT_LE(error_over_bound(abs(random_tensor({n}))), 1) << n;
  }
  const Tensor tenths(Floats(1 << 20, 0.1f));
  EXPECT_LE(error_over_bound(tenths), 1);
  EXPECT_NEAR(sum(tenths).item<float>(), 0.1f * double{1 << 20}, 0.0626);  // in one chain: 1034 off
}

// spec: T10.a
TEST(Reductions, WidenNarrowIntegersAndWrap) {
  struct Row {
    DType from, to;
  };
  for (const Row& row : {Row{kInt8, kInt32}, Row{kInt16, kInt32}, Row{kInt32, kInt32},
                         Row{kInt64, kInt64}, Row{kUInt8, kUInt32}, Row{kUInt16, kUInt32},
                         Row{kUInt32, kUInt32}, Row{kUInt64, kUInt64}}) {
    const Tensor x = astype(Tensor(std::vector<int32_t>(300, 100)), row.from);
    EXPECT_EQ(sum(x).dtype(), row.to) << name(row.from);
    EXPECT_EQ(sum(x).item<int64_t>(), 30000) << name(row.from);
    EXPECT_EQ(max(x).dtype(), row.from);
  }
  const int32_t top = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(sum(Tensor(std::vector<int32_t>{top, 1})).item<int64_t>(),
            std::numeric_limits<int32_t>::min());
}

// spec: T10.a
TEST(Reductions, OfNothingAndOfNan) {
  const Tensor none(Floats{}, {2, 0});
  EXPECT_EQ(sum(none, {.axis = 1}).to_vector<float>(), (Floats{0, 0}));
  EXPECT_EQ(prod(none, {.axis = 1}).to_vector<float>(), (Floats{1, 1}));
  EXPECT_TRUE(std::isnan(mean(none).item<float>()));
  EXPECT_TRUE(all(none).item<bool>());
  EXPECT_FALSE(any(none).item<bool>());
  EXPECT_EQ(sum(none, {.axis = 0}).shape(), Shape({0}));
  EXPECT_FALSE(std::signbit(sum(none).item<float>()));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t at : {0u, 5u, 69u}) {
    Floats values(70, 1.0f);
    values[at] = nan;
    EXPECT_TRUE(std::isnan(max(Tensor(values)).item<float>()));
    EXPECT_TRUE(std::isnan(min(Tensor(values)).item<float>()));
    EXPECT_TRUE(std::isnan(max(Tensor(values, {70, 1}), {.axis = 0}).item<float>()));
    EXPECT_EQ(argmax(Tensor(values)).item<int64_t>(), static_cast<int64_t>(at));
  }
}

// spec: T10.a
TEST(Reductions, OfTruths) {
  const Tensor x({{1, 0, 3}, {4, 5, 6}});
  EXPECT_EQ(all(x, {.axis = 1}).to_vector<bool>(), (std::vector<bool>{false, true}));
  EXPECT_EQ(any(x, {.axis = {0, 1}, .keepdims = true}).shape(), Shape({1, 1}));
  EXPECT_EQ(count_nonzero(x, {.axis = 0}).to_vector<int64_t>(), (Ints{2, 1, 2}));
  EXPECT_EQ(count_nonzero(Tensor({{{1, 0}, {0, 2}}, {{3, 3}, {0, 0}}}), {.axis = {0, 2}})
                .to_vector<int64_t>(),
            (Ints{3, 1}));
  EXPECT_TRUE(any(Tensor(std::vector<std::complex<float>>{{0, 0}, {0, 1}})).item<bool>());
}

// spec: T10.c
TEST(Reductions, SayWhatIsWrong) {
  const Tensor none(Floats{}, {2, 0});
  EXPECT_NE(message_of([&] { max(none); }).find("nothing is the largest of none"),
            std::string::npos);
  EXPECT_NE(message_of([&] { min(none, {.axis = 1}); }).find("nothing is the smallest of none"),
            std::string::npos);
  EXPECT_NE(message_of([&] { argmax(none); }).find("argmax: operand 'x' of shape [2,0]"),
            std::string::npos);
  EXPECT_NE(message_of([&] { sum(none, {.axis = 2}); }).find("axis 2 is outside [-2, 2)"),
            std::string::npos);
}

// spec: T35
TEST(Gradients, OfMeanAndProdWithZeros) {
  expect_near(gradient_of([](const Tensor& x) { return mean(x); }, Tensor{1.0, 2.0, 3.0, 4.0}),
              {.25, .25, .25, .25}, 0);
  const auto product = [](const Tensor& x) { return prod(x); };
  expect_near(gradient_of(product, Tensor{2.0, 3.0, 4.0}), {12, 8, 6}, 0);
  expect_near(gradient_of(product, Tensor{0.0, 3.0, 4.0}), {12, 0, 0}, 0);
  expect_near(gradient_of(product, Tensor{0.0, 0.0, 4.0}), {0, 0, 0}, 0);
  const Tensor x({{{1.0, 2.0}, {3.0, 4.0}}, {{5.0, 0.0}, {7.0, 8.0}}});
  expect_near(gradient_of(
                  [](const Tensor& v) {
                    return prod(v, {.axis = {0, 2}});
                  },
                  x),
              {0, 0, 4 * 7 * 8, 3 * 7 * 8, 0, 10, 3 * 4 * 8, 3 * 4 * 7}, 0);
}

// spec: T34, T30
TEST(Gradients, OfExtremesAreSharedAmongTies) {
  expect_near(gradient_of([](const Tensor& x) { return max(x); }, Tensor{1.0, 3.0, 3.0}),
              {0, .5, .5}, 0);
  expect_near(gradient_of([](const Tensor& x) { return min(x); }, Tensor{1.0, 1.0, 3.0}),
              {.5, .5, 0}, 0);
  expect_near(gradient_of([](const Tensor& x) { return max(x, {.axis = 1}); },
                          Tensor({{1.0, 2.0}, {4.0, 4.0}})),
              {0, 1, .5, .5}, 0);
  expect_near(gradient_of([](const Tensor& x) { return sum(x * x); }, Tensor{.1, .2, .3}),
              {.2, .4, .6}, 1e-7);
}

// spec: T33
TEST(SumTo, UndoesBroadcasting) {
  const Tensor x({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  EXPECT_EQ(sum_to(x, {3}).to_vector<float>(), (Floats{5, 7, 9}));
  EXPECT_EQ(sum_to(x, {2, 1}).to_vector<float>(), (Floats{6, 15}));
  EXPECT_EQ(sum_to(x, Ints{}).item<float>(), 21);
  EXPECT_NE(message_of([&] { sum_to(x, {2}); }).find("does not sum to shape [2]"),
            std::string::npos);
  const Tensor rows({{1.0, 2.0, 3.0}, {1.0, 2.0, 3.0}, {1.0, 2.0, 3.0}, {1.0, 2.0, 3.0}});
  expect_near(gradient_of(
                  [](const Tensor& v) {
                    return broadcast_to(v, {4, 3});
                  },
                  Tensor{0.0, 0.0, 0.0}, rows),
              {4, 8, 12}, 0);
}

}  // namespace
}  // namespace etude::reduction_test
