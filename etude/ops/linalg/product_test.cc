// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <csignal>
#include <random>

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/time.h>

#include "etude/autodiff/tape/tape.h"
#include "etude/base/sanitizers.h"
#include "etude/core/context/context.h"
#include "etude/device/cpu/parallel.h"
#include "etude/ops.h"

namespace etude::product_test {
namespace {

using List = std::vector<Tensor>;
List gradients(Tape& tape, const List& targets, const List& sources, const List& seeds = {}) {
  return tape.gradient(targets, sources, seeds);
}

template <class T>
Tensor random_tensor(const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<T> values(static_cast<std::size_t>(shape.count()));
  for (T& v : values) v = static_cast<T>(uniform(random));
  return Tensor(values, shape);
}

// Element [i, j] of the product of two matrices given as flat values.
double element(const std::vector<double>& x, const std::vector<double>& y, int64_t m, int64_t n,
               int64_t k, bool tx, bool ty, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t t = 0; t < k; ++t) {
    sum += x[static_cast<std::size_t>(tx ? t * m + i : i * k + t)] *
           y[static_cast<std::size_t>(ty ? j * k + t : t * n + j)];
  }
  return sum;
}

struct Sizes {
  int64_t m, n, k;
};

// Sizes on both sides of every limit between kernels, tiles and vectors.
const Sizes kSizes[] = {{1, 1, 1},       {2, 3, 4},      {12, 16, 5},     {13, 17, 33},
                        {32, 32, 32},    {33, 31, 40},   {1, 300, 20},    {300, 1, 20},
                        {1, 1, 500},     {40, 70, 3},    {97, 96, 95},    {97, 98, 99},
                        {400, 130, 70},  {60, 500, 200}, {390, 530, 300}, {1026, 261, 515},
                        {32, 256, 256},  {29, 301, 259}, {9, 1021, 512},  {17, 2048, 600},
                        {30, 700, 2300}, {784, 256, 32}, {100, 333, 64},  {65, 320, 65},
                        {1025, 1030, 3}, {1025, 1030, 5}};

// spec: T11
TEST(Matmul, EqualsDirectSumsForAllTranspositionsAndKernels) {
  constexpr int64_t kLooks = internal::kHasAddressSanitizer ? 10 : 50;  // along an axis
  for (const Sizes& s : kSizes) {
    for (int flags = 0; flags < 4; ++flags) {
      const bool tx = (flags & 1) != 0, ty = (flags & 2) != 0;
      const Shape xs = tx ? Shape{s.k, s.m} : Shape{s.m, s.k},
                  ys = ty ? Shape{s.n, s.k} : Shape{s.k, s.n};
      for (const DType dtype : {kFloat32, kFloat64}) {
        // The bound is for 600 terms; errors of longer sums grow as the root of their number.
        const double terms = std::sqrt(std::max(1.0, static_cast<double>(s.k) / 600));
        SCOPED_TRACE(xs.to_string() + ys.to_string() +
                     (dtype == kFloat32 ? " float32" : " float64"));
        const Tensor x = random_tensor<float>(xs, 1), y = random_tensor<float>(ys, 2);
        const std::vector<double> xv = x.to_vector<double>(), yv = y.to_vector<double>();
        const Tensor z =
            matmul(astype(x, dtype), astype(y, dtype), {.transpose_x = tx, .transpose_y = ty});
        ASSERT_EQ(z.shape(), (Shape{s.m, s.n}));
        const std::vector<double> got = z.to_vector<double>();
        for (int64_t i = 0; i < s.m; i += 1 + s.m / kLooks) {
          for (int64_t j = 0; j < s.n; j += 1 + s.n / kLooks) {
            const double want = element(xv, yv, s.m, s.n, s.k, tx, ty, i, j);
            ASSERT_NEAR(got[static_cast<std::size_t>(i * s.n + j)], want,
                        (dtype == kFloat32 ? 2e-5 : 1e-12) * terms * (1 + std::abs(want)));
          }
        }
      }
    }
  }
}

// spec: T11
TEST(Matmul, ShapesFollowTheStandard) {
  const struct {
    Shape x, y, out;
  } rows[] = {
      {{3}, {3}, {}},           {{3}, {3, 4}, {4}},       {{2, 3}, {3}, {2}},
      {{5, 2, 3}, {3}, {5, 2}}, {{3}, {5, 3, 4}, {5, 4}}, {{5, 1, 2, 3}, {6, 3, 4}, {5, 6, 2, 4}},
      {{2, 0}, {0, 3}, {2, 3}}, {{0, 3}, {3, 2}, {0, 2}}, {{0, 2, 3}, {0, 3, 4}, {0, 2, 4}}};
  for (const auto& row : rows) {
    EXPECT_EQ(matmul(full(row.x, 1.0f), full(row.y, 1.0f)).shape(), row.out)
        << row.x.to_string() << row.y.to_string();
  }
  EXPECT_EQ(matmul(full({2, 0}, 1.0f), full({0, 3}, 1.0f)).to_vector<float>(),
            std::vector<float>(6, 0.0f));
}

// spec: T11
TEST(Matmul, LeadingAxesBroadcast) {
  const Tensor x = random_tensor<float>({2, 1, 3, 4}, 1), y = random_tensor<float>({5, 4, 2}, 2);
  const std::vector<float> got = matmul(x, y).to_vector<float>();
  const std::vector<double> xv = x.to_vector<double>(), yv = y.to_vector<double>();
  for (int64_t a = 0; a < 2; ++a) {
    for (int64_t b = 0; b < 5; ++b) {
      const std::vector<double> xs(xv.begin() + a * 12, xv.begin() + a * 12 + 12);
      const std::vector<double> ys(yv.begin() + b * 8, yv.begin() + b * 8 + 8);
      for (int64_t i = 0; i < 6; ++i) {
        EXPECT_NEAR(got[static_cast<std::size_t>((a * 5 + b) * 6 + i)],
                    element(xs, ys, 3, 2, 4, false, false, i / 2, i % 2), 1e-6);
      }
    }
  }
}

TEST(Matmul, IntegersWrapHalvesRoundOnceComplexMultiply) {
  const Tensor a(std::vector<int8_t>{100, 3}, {1, 2}), b(std::vector<int8_t>{2, 1}, {2, 1});
  EXPECT_EQ(matmul(a, b).item<int>(), 203 - 256);
  const Tensor c(std::vector<uint16_t>{65535}, {1, 1});
  EXPECT_EQ(matmul(c, c).item<int>(), 1);
  const Tensor h = astype(Tensor(std::vector<float>{1, 1.0f / 1024, 1.0f / 1024}), kFloat16);
  EXPECT_EQ(matmul(h, astype(full({3}, 1.0f), kFloat16)).item<float>(), 1 + 2.0f / 1024);
  using Complex = std::complex<double>;
  const Tensor i(std::vector<Complex>{{0, 1}, {2, 0}});
  EXPECT_EQ(matmul(i, i).item<Complex>(), Complex(3, 0));
}

// spec: T36
TEST(Matmul, GradientsAreSumsOfRowsAndColumns) {
  const Tensor a({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}), b({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}});
  Tape tape;
  Tensor y;
  {
    const TapeContext context(tape);
    tape.watch(a);
    tape.watch(b);
    y = matmul(a, b);
  }
  const std::vector<Tensor> g = gradients(tape, {y}, {a, b});
  EXPECT_EQ(g[0].to_vector<float>(), (std::vector<float>{3, 7, 11, 3, 7, 11}));
  EXPECT_EQ(g[1].to_vector<float>(), (std::vector<float>{5, 5, 7, 7, 9, 9}));
}

// Counts the calls of one op.
class CountingContext final : public Context {
 public:
  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override {
    if (op.name() == "matmul") ++count;
    return parent()->execute(op, operands, attrs, where);
  }
  int count = 0;
};

// spec: CG-12
TEST(Matmul, NoGradientForAnUnwatchedOperand) {
  const Tensor w = random_tensor<float>({3, 4}, 1), x = random_tensor<float>({4, 2}, 2);
  Tape tape;
  Tensor y;
  {
    const TapeContext context(tape);
    tape.watch(w);
    y = matmul(w, x);
  }
  CountingContext counting;
  ContextStack::push(counting);
  const Tensor g = gradients(tape, {y}, {w})[0];
  ContextStack::remove(counting);
  EXPECT_EQ(g.shape(), w.shape());
  EXPECT_EQ(counting.count, 1);
}

// spec: CG-13.b
TEST(Matmul, GradientsEqualDifferencesForAllShapesAndFlags) {
  const struct {
    Shape x, y;
    bool tx, ty;
  } rows[] = {{{2, 3}, {3, 4}, false, false},    {{3, 2}, {3, 4}, true, false},
              {{2, 3}, {4, 3}, false, true},     {{3, 2}, {4, 3}, true, true},
              {{3}, {3}, false, false},          {{3}, {3, 2}, false, false},
              {{3}, {2, 3}, true, true},         {{2, 3}, {3}, false, false},
              {{3, 2}, {3}, true, false},        {{5, 2, 3}, {3}, false, false},
              {{3}, {5, 3, 2}, false, false},    {{2, 1, 2, 3}, {4, 3, 2}, false, false},
              {{5, 2, 3}, {3, 4}, false, false}, {{5, 2, 3}, {4, 3}, false, true},
              {{2, 3, 2}, {2, 4, 3}, true, true}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.x.to_string() + row.y.to_string());
    const MatmulOptions options{.transpose_x = row.tx, .transpose_y = row.ty};
    Tensor in[] = {random_tensor<double>(row.x, 1), random_tensor<double>(row.y, 2)};
    Tape tape;
    Tensor y;
    {
      const TapeContext context(tape);
      tape.watch(in[0]);
      tape.watch(in[1]);
      y = matmul(in[0], in[1], options);
    }
    const Tensor weights = random_tensor<double>(y.shape(), 3);
    const std::vector<Tensor> g = gradients(tape, {y}, {in[0], in[1]}, {weights});
    for (int wrt = 0; wrt < 2; ++wrt) {
      ASSERT_EQ(g[static_cast<std::size_t>(wrt)].shape(), in[wrt].shape());
      const std::vector<double> found = g[static_cast<std::size_t>(wrt)].to_vector<double>();
      std::vector<double> values = in[wrt].to_vector<double>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        double sides[2];
        for (int side = 0; side < 2; ++side) {
          std::vector<double> moved = values;
          moved[i] += side == 0 ? -1e-3 : 1e-3;
          const Tensor at(moved, in[wrt].shape());
          const Tensor z = wrt == 0 ? matmul(at, in[1], options) : matmul(in[0], at, options);
          sides[side] = sum(z * weights).item<double>();
        }
        EXPECT_NEAR(found[i], (sides[1] - sides[0]) / 2e-3, 1e-9)
            << "operand " << wrt << " element " << i;
      }
    }
  }
}

// spec: T39
TEST(Matmul, ErrorNamesBothShapesAndTheLine) {
  try {
    matmul(full({2, 3}, 1.0f), full({4, 2}, 1.0f));
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* part :
         {"matmul", "inner sizes 3 and 4", "[2,3]", "[4,2]", "product_test.cc:"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
  }
}

TEST(Matmul, BitsDoNotDependOnTheNumberOfThreads) {
  for (const Sizes& s :
       {Sizes{500, 300, 200}, Sizes{100, 900, 64}, Sizes{2000, 10, 84}, Sizes{5000, 3, 3},
        Sizes{401, 600, 300}, Sizes{24, 3000, 300}, Sizes{900, 340, 40}}) {
    for (const bool turned : {false, true}) {
      const Tensor x = random_tensor<float>({2, s.m, s.k}, 1),
                   y = random_tensor<float>(turned ? Shape{2, s.n, s.k} : Shape{2, s.k, s.n}, 2);
      Tensor first;
      for (const int threads : {1, 2, 7}) {
        set_thread_count(threads);
        const Tensor z = matmul(x, y, {.transpose_y = turned});
        if (!first.has_value()) first = z;
        EXPECT_TRUE(same_value(z, first)) << s.m << ", " << s.n << ", " << s.k << ": " << threads;
      }
      set_thread_count(0);
    }
  }
}

// Where signal handlers of this thread ran.
std::atomic<int> on_stack = 0, elsewhere = 0;
std::atomic<const char*> stack_begin = nullptr, stack_end = nullptr;
std::atomic<pthread_t> looking{};
void look_where(int) {
  if (pthread_equal(pthread_self(), looking) == 0) return;
  const auto* here = static_cast<const char*>(__builtin_frame_address(0));
  ++(here >= stack_begin && here < stack_end ? on_stack : elsewhere);
}

// A library below may use the stack pointer for something else, and a handler would run there.
TEST(Matmul, SignalsFindTheStack) {
  pthread_attr_t attr;
  ASSERT_EQ(pthread_getattr_np(pthread_self(), &attr), 0);
  void* begin = nullptr;
  std::size_t size = 0;
  pthread_attr_getstack(&attr, &begin, &size);
  pthread_attr_destroy(&attr);
  looking = pthread_self();
  stack_begin = static_cast<const char*>(begin);
  stack_end = static_cast<const char*>(begin) + size;
  const auto before = std::signal(SIGALRM, look_where);
  set_thread_count(1);
  const itimerval often{{0, 100}, {0, 100}}, never{};
  setitimer(ITIMER_REAL, &often, nullptr);
  for (const int64_t k : {100, 400, 9000, 25088}) {
    for (const bool transposed : {false, true}) {
      const Tensor x = random_tensor<float>(transposed ? Shape{k, 96} : Shape{96, k}, 1);
      const Tensor y = random_tensor<float>({k, 120}, 2);
      const Tensor z = matmul(x, y, {.transpose_x = transposed});
      for (int64_t i = 0; i < 200000 / k; ++i) {
        EXPECT_TRUE(same_value(matmul(x, y, {.transpose_x = transposed}), z));
      }
    }
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  std::signal(SIGALRM, before);
  set_thread_count(0);
  EXPECT_GT(on_stack, 0);
  EXPECT_EQ(elsewhere, 0);
}

}  // namespace
}  // namespace etude::product_test
