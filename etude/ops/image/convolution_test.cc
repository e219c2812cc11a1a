// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "etude/autodiff/tape/tape.h"
#include "etude/device/cpu/parallel.h"
#include "etude/ops.h"
#include "etude/ops/gradient_of.h"

namespace etude::convolution_test {
namespace {

using List = std::vector<Tensor>;
List gradients(Tape& tape, const List& targets, const List& sources, const List& seeds = {}) {
  return tape.gradient(targets, sources, seeds);
}

// A convolution with its resolved attributes.
struct Case {
  int64_t n, h, w, c, kh, kw, o, groups, sh, sw, dh, dw, top, bottom, left, right;

  Shape x() const { return {n, h, w, c}; }
  Shape filter() const { return {kh, kw, c / groups, o}; }
  int64_t oh() const { return (h + top + bottom - (kh - 1) * dh - 1) / sh + 1; }
  int64_t ow() const { return (w + left + right - (kw - 1) * dw - 1) / sw + 1; }
  nn::Conv2dOptions options() const {
    return {.strides = {sh, sw},
            .explicit_padding = {top, bottom, left, right},
            .dilations = {dh, dw},
            .groups = groups};
  }
};

std::vector<Case> cases() {
  std::vector<Case> out = {
      {3, 12, 12, 1, 5, 5, 6, 1, 1, 1, 1, 1, 0, 0, 0, 0},
      {2, 12, 12, 6, 5, 5, 16, 1, 1, 1, 1, 1, 2, 2, 2, 2},
      {1, 9, 8, 40, 3, 3, 36, 1, 1, 1, 1, 1, 1, 1, 1, 1},
      {2, 7, 7, 33, 1, 1, 20, 1, 2, 2, 1, 1, 0, 0, 0, 0},
      {2, 9, 9, 64, 3, 3, 64, 1, 2, 2, 1, 1, 1, 0, 1, 0},
      {21, 4, 4, 17, 3, 3, 13, 1, 1, 1, 1, 1, 1, 1, 1, 1},  // several images in one product
      {11, 5, 5, 20, 3, 3, 70, 1, 1, 1, 1, 1, 1, 1, 1, 1},
      {3, 14, 14, 16, 3, 3, 16, 1, 1, 1, 1, 1, 1, 1, 1, 1},  // by Winograd's filtering
      {4, 9, 12, 19, 3, 3, 35, 1, 1, 1, 1, 1, 0, 0, 0, 0},
      {5, 8, 7, 33, 3, 3, 18, 1, 1, 1, 1, 1, 3, 0, 1, 4},
      {2, 5, 40, 16, 3, 3, 70, 1, 1, 1, 1, 1, 2, 2, 0, 1},
      {2, 8, 8, 130, 3, 3, 16, 1, 1, 1, 1, 1, 1, 1, 1, 1},
      {2, 28, 28, 1, 5, 5, 6, 1, 1, 1, 1, 1, 2, 2, 2, 2},  // by strips of results
      {3, 11, 13, 1, 3, 3, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1},
      {5, 9, 18, 3, 3, 4, 5, 1, 2, 1, 2, 1, 0, 1, 0, 2},
      {2, 10, 21, 2, 4, 3, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1},
      {1, 3, 40, 1, 1, 7, 2, 1, 1, 1, 1, 1, 0, 0, 3, 3},
      {2, 7, 12, 1, 2, 5, 8, 1, 1, 1, 1, 1, 0, 0, 0, 0},
  };
  std::mt19937 random(7);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  while (out.size() < 64) {
    Case k{};
    k.groups = pick(1, 3);
    k.n = pick(1, 3), k.h = pick(1, 9), k.w = pick(1, 9);
    k.c = k.groups * pick(1, 4), k.o = k.groups * pick(1, 9);
    k.kh = pick(1, 4), k.kw = pick(1, 4);
    k.sh = pick(1, 3), k.sw = pick(1, 3), k.dh = pick(1, 2), k.dw = pick(1, 2);
    k.top = pick(0, 4), k.bottom = pick(0, 4), k.left = pick(0, 4), k.right = pick(0, 4);
    const bool fits =
        k.h + k.top + k.bottom > (k.kh - 1) * k.dh && k.w + k.left + k.right > (k.kw - 1) * k.dw;
    if (fits) out.push_back(k);
  }
  return out;
}

std::string describe(const Case& k) {
  return "x " + k.x().to_string() + " filter " + k.filter().to_string() + " strides " +
         std::to_string(k.sh) + "," + std::to_string(k.sw) + " dilations " + std::to_string(k.dh) +
         "," + std::to_string(k.dw) + " padding " +
         Shape{k.top, k.bottom, k.left, k.right}.to_string();
}

template <class T>
std::vector<T> random_values(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<T> out(static_cast<std::size_t>(count));
  for (T& v : out) v = static_cast<T>(uniform(random));
  return out;
}

// The sum over all taps of x filter cotangent: its derivative by one of the three is the
// convolution, or a gradient. Written without any of the code under test.
template <class F>
void for_each_term(const Case& k, F&& body) {
  const int64_t ci = k.c / k.groups, oi = k.o / k.groups;
  for (int64_t n = 0; n < k.n; ++n)
    for (int64_t r = 0; r < k.oh(); ++r)
      for (int64_t s = 0; s < k.ow(); ++s)
        for (int64_t u = 0; u < k.kh; ++u)
          for (int64_t v = 0; v < k.kw; ++v) {
            const int64_t y = r * k.sh + u * k.dh - k.top, x = s * k.sw + v * k.dw - k.left;
            if (y < 0 || y >= k.h || x < 0 || x >= k.w) continue;
            for (int64_t o = 0; o < k.o; ++o)
              for (int64_t i = 0; i < ci; ++i) {
                body(((n * k.h + y) * k.w + x) * k.c + o / oi * ci + i,
                     ((u * k.kw + v) * ci + i) * k.o + o,
                     ((n * k.oh() + r) * k.ow() + s) * k.o + o);
              }
          }
}

struct Data {
  std::vector<double> x, filter, ct;  // values that float32 holds exactly
  std::vector<double> y, dx, dfilter;
};

Data reference(const Case& k) {
  const auto round = [](const std::vector<float>& v) {
    return std::vector<double>(v.begin(), v.end());
  };
  Data d;
  d.x = round(random_values<float>(k.x().count(), 1));
  d.filter = round(random_values<float>(k.filter().count(), 2));
  d.ct = round(random_values<float>(k.n * k.oh() * k.ow() * k.o, 3));
  d.y.resize(d.ct.size());
  d.dx.resize(d.x.size());
  d.dfilter.resize(d.filter.size());
  for_each_term(k, [&](int64_t i, int64_t f, int64_t j) {
    const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(f),
               c = static_cast<std::size_t>(j);
    d.y[c] += d.x[a] * d.filter[b];
    d.dx[a] += d.ct[c] * d.filter[b];
    d.dfilter[b] += d.ct[c] * d.x[a];
  });
  return d;
}

// spec: T13
TEST(Conv2d, ValuesAndGradientsEqualDirectSums) {
  for (const Case& k : cases()) {
    SCOPED_TRACE(describe(k));
    const Data d = reference(k);
    for (const DType dtype : {kFloat32, kFloat64}) {
      const double tolerance = dtype == kFloat32 ? 2e-5 : 1e-12;
      const Tensor x = astype(Tensor(d.x, k.x()), dtype),
                   filter = astype(Tensor(d.filter, k.filter()), dtype);
      const Tensor ct = astype(Tensor(d.ct, {k.n, k.oh(), k.ow(), k.o}), dtype);
      Tape tape;
      Tensor y;
      {
        const TapeContext context(tape);
        tape.watch(x);
        tape.watch(filter);
        y = nn::conv2d(x, filter, k.options());
      }
      ASSERT_EQ(y.shape(), ct.shape());
      expect_relatively_near(y, d.y, tolerance);
      const std::vector<Tensor> g = gradients(tape, {y}, {x, filter}, {ct});
      expect_relatively_near(g[0], d.dx, tolerance);
      expect_relatively_near(g[1], d.dfilter, tolerance);
    }
  }
}

// A convolution of few outputs as its definition has it: from the bias on, tap by tap, each term
// one fused multiply-add.
std::vector<float> direct_sums(const Case& k, const std::vector<float>& x,
                               const std::vector<float>& filter, const std::vector<float>& bias) {
  std::vector<float> y(static_cast<std::size_t>(k.n * k.oh() * k.ow() * k.o));
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = bias[i % bias.size()];
  for_each_term(k, [&](int64_t i, int64_t f, int64_t j) {
    float& sum = y[static_cast<std::size_t>(j)];
    sum = std::fma(x[static_cast<std::size_t>(i)], filter[static_cast<std::size_t>(f)], sum);
  });
  return y;
}

// Without padding, whose zeros are terms as well: results have the bits of the direct sums, and a
// number that is not finite reaches only the windows that contain it.
TEST(Conv2d, FewOutputsHaveTheBitsOfDirectSums) {
  const float kInfinity = std::numeric_limits<float>::infinity();
  for (Case k : cases()) {
    if (k.o > 8 || k.groups != 1) continue;
    k.top = k.bottom = k.left = k.right = 0;
    if (k.h <= (k.kh - 1) * k.dh || k.w <= (k.kw - 1) * k.dw) continue;
    SCOPED_TRACE(describe(k));
    std::vector<float> x = random_values<float>(k.x().count(), 1);
    const std::vector<float> filter = random_values<float>(k.filter().count(), 2),
                             bias = random_values<float>(k.o, 3);
    for (const bool finite : {true, false}) {
      if (!finite) x[x.size() / 2] = kInfinity, x[x.size() / 5] = std::nanf("");
      const std::vector<float> want = direct_sums(k, x, filter, bias);
      nn::Conv2dOptions options = k.options();
      options.bias = Tensor(bias);
      const std::vector<float> got =
          nn::conv2d(Tensor(x, k.x()), Tensor(filter, k.filter()), options).to_vector<float>();
      for (std::size_t i = 0; i < want.size(); ++i) {
        if (std::isnan(want[i])) {
          ASSERT_TRUE(std::isnan(got[i])) << i << " " << got[i];
        } else {
          ASSERT_EQ(got[i], want[i]) << "element " << i;
        }
      }
    }
  }
}

// spec: T13
TEST(Conv2d, SamePaddingPutsTheOddRowAtTheEnd) {
  const Tensor x = full({1, 5, 6, 1}, 1.0f), filter = full({2, 3, 1, 1}, 1.0f);
  const Tensor y = nn::conv2d(x, filter, {.strides = 2, .padding = "same"});
  EXPECT_EQ(y.shape(), (Shape{1, 3, 3, 1}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{6, 6, 4, 6, 6, 4, 3, 3, 2}));
}

// spec: T13
TEST(Conv2d, BiasIsAddedToEveryPixelAndGetsTheSum) {
  const Tensor x = full({2, 3, 3, 1}, 1.0f), filter = full({2, 2, 1, 2}, 1.0f);
  const Tensor bias(std::vector<float>{10, 20});
  Tape tape;
  Tensor y;
  {
    const TapeContext context(tape);
    tape.watch(bias);
    y = nn::conv2d(x, filter, {.bias = bias});
  }
  EXPECT_EQ(y.to_vector<float>()[0], 14);
  EXPECT_EQ(y.to_vector<float>()[1], 24);
  EXPECT_EQ(gradients(tape, {y}, {bias})[0].to_vector<float>(), (std::vector<float>{8, 8}));
}

TEST(Conv2d, IntegersWrapAndHalvesRoundOnce) {
  const Tensor x(std::vector<int8_t>{100, 100}, {1, 1, 2, 1}),
      filter(std::vector<int8_t>{1, 1}, {1, 2, 1, 1});
  EXPECT_EQ(nn::conv2d(x, filter).item<int>(), 200 - 256);
  const Tensor half =
      astype(Tensor(std::vector<float>{1, 1.0f / 1024, 1.0f / 1024}, {1, 1, 3, 1}), kFloat16);
  const Tensor ones = astype(full({1, 3, 1, 1}, 1.0f), kFloat16);
  EXPECT_EQ(nn::conv2d(half, ones).item<float>(), 1 + 2.0f / 1024);
}

void expect_same_bits_on_all_threads(const Shape& image, const Shape& window) {
  const Tensor x(random_values<float>(image.count(), 1), image);
  const Tensor filter(random_values<float>(window.count(), 2), window);
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 7}) {
    set_thread_count(threads);
    Tape tape;
    Tensor y;
    {
      const TapeContext context(tape);
      tape.watch(x);
      tape.watch(filter);
      y = nn::conv2d(x, filter, {.padding = "same"});
    }
    std::vector<Tensor> got = gradients(tape, {y}, {x, filter}, {y});
    got.push_back(y);
    if (first.empty()) first = got;
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(same_value(got[i], first[i])) << threads << " " << i;
  }
  set_thread_count(0);
}

TEST(Conv2d, BitsDoNotDependOnTheNumberOfThreads) {
  expect_same_bits_on_all_threads({24, 28, 28, 3}, {5, 5, 3, 16});
  expect_same_bits_on_all_threads({17, 15, 18, 24}, {3, 3, 24, 40});
  expect_same_bits_on_all_threads({40, 28, 28, 1}, {5, 5, 1, 6});
}

TEST(Conv2d, BitsDoNotDependOnTheBatch) {
  for (const int64_t side : {6, 8, 16}) {
    const Tensor x(random_values<float>(7 * side * side * 16, 1), {7, side, side, 16});
    const Tensor filter(random_values<float>(3 * 3 * 16 * 48, 2), {3, 3, 16, 48});
    const Tensor all = nn::conv2d(x, filter, {.padding = "same"});
    for (int64_t i = 0; i < 7; ++i) {
      const Tensor one = nn::conv2d(x.at(slice(i, i + 1)), filter, {.padding = "same"});
      EXPECT_TRUE(same_value(one, all.at(slice(i, i + 1)))) << side << " " << i;
    }
  }
}

// The transforms of 3 by 3 filters must not lose accuracy: errors stay within a few roundings of
// the sum of absolute terms, as for a direct sum.
TEST(Conv2d, ThreeByThreeIsAsAccurateAsDirectSums) {
  const Case k{2, 12, 12, 64, 3, 3, 64, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const Data d = reference(k);
  Data absolute;
  absolute.y.resize(d.y.size());
  for_each_term(k, [&](int64_t i, int64_t f, int64_t j) {
    absolute.y[static_cast<std::size_t>(j)] +=
        std::abs(d.x[static_cast<std::size_t>(i)] * d.filter[static_cast<std::size_t>(f)]);
  });
  const Tensor x = astype(Tensor(d.x, k.x()), kFloat32),
               filter = astype(Tensor(d.filter, k.filter()), kFloat32);
  const std::vector<float> y = nn::conv2d(x, filter, k.options()).to_vector<float>();
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_NEAR(y[i], d.y[i], 2e-7 * absolute.y[i]) << "element " << i;
  }
}

}  // namespace
}  // namespace etude::convolution_test
