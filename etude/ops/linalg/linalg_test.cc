// SPDX-License-Identifier: Apache-2.0
// Tests of linear algebra, transforms and attention outside of the op matrix: faults of data in the
// public functions, gradients where rules are singular, memory, half types. Values are held to
// NumPy and SciPy in family_values_test.cc.
#include "etude/ops/linalg.h"

#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/core/buffer.h"
#include "etude/core/context/ambient.h"
#include "etude/device/cpu/parallel.h"
#include "etude/lazy/lazy.h"
#include "etude/ops.h"
#include "etude/ops/gradient_of.h"
#include "etude/ops/image.h"
#include "etude/ops/random.h"
#include "etude/stage/function.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;

Tensor matrices(const std::vector<double>& values, const Shape& shape) {
  return reshape(Tensor(values), shape);
}

// A batch of three, whose second matrix is singular and not positive definite.
Tensor broken_batch() {
  return matrices({2, 1, 1, 2, /**/ 1, 1, 1, 1, /**/ 2, 0, 0, 2}, {3, 2, 2});
}

// In all modes the error names the user's op, and the effect of a singular matrix on it.
// spec: T12.b
TEST(Linalg, FaultsOfSingularMatricesNameTheUsersOp) {
  const Tensor x = matrices({1, 2, 2, 4}, {2, 2});
  const auto expect_text = [&](const auto& f, const std::vector<std::string>& parts) {
    const auto staged = function([&](const Tensor& at) { return f(at); });
    const auto lazily = [&] {
      const LazyScope lazy;
      return f(x).template to_vector<double>();
    };
    for (const std::string& said : {message_of([&] { f(x); }), message_of([&] { staged(x); }),
                                    message_of([&] { lazily(); })}) {
      EXPECT_EQ(said.find(parts[0]), 0) << said;
      EXPECT_EQ(said.find("solve_matrices"), std::string::npos) << said;
      for (const std::string& part : parts) EXPECT_NE(said.find(part), std::string::npos) << said;
    }
  };
  expect_text(
      [](const Tensor& at) {
        return gradient([](const Tensor& y) { return linalg::logdet(y); }, at);
      },
      {"gradient of slogdet: ", "the matrix in 'x' is singular: the logarithm of its determinant",
       "Take linalg::det", "linalg_test.cc:"});
  expect_text([](const Tensor& at) { return linalg::inv(at); },
              {"inv: ", "the matrix in 'a' is singular, so it has no inverse. Take linalg::pinv"});
  expect_text([](const Tensor& at) { return linalg::solve(at, ones_like(at)); },
              {"solve: ", "so the system has no solution or many. Take linalg::lstsq"});
  expect_text([](const Tensor& at) { return linalg::matrix_power(at, -2); },
              {"matrix_power: ", "the matrix in 'x' is singular, so it has no negative powers"});
  // The determinant's own derivative is there: the matrix of cofactors.
  const Tensor slope = gradient([](const Tensor& y) { return linalg::det(y); }, x);
  EXPECT_LT(max(abs(slope - matrices({4, -2, -2, 1}, {2, 2}))).item<double>(), 1e-14);
}

// spec: T12.b
TEST(Linalg, FaultsNameTheMatrixOfTheBatch) {
  const Tensor x = broken_batch();
  const auto invalid = [](auto f, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) {
      EXPECT_NE(message_of(f).find(part), std::string::npos) << message_of(f);
    }
  };
  invalid([&] { linalg::solve(x, ones({2}, {.dtype = kFloat64})); },
          {"solve: ", "matrix 1 of the batch in 'a' is singular", "linalg_test.cc"});
  invalid(
      [&] {
        linalg::inv(reshape(x, {3, 1, 2, 2}));
      },
      {"inv: ", "matrix [1,0] of the batch in 'a' is singular"});
  invalid(
      [&] { linalg::cholesky(x); },
      {"cholesky: ", "matrix 1 of the batch in 'x' is not positive definite. Add a small number"});
  invalid(
      [&] {
        linalg::triangular_solve(matrices({0, 0, 1, 1}, {2, 2}), ones({2}, {.dtype = kFloat64}));
      },
      {"the matrix in 'a' is singular: its diagonal has a zero"});
  invalid([&] { linalg::matrix_power(x, -1); }, {"matrix 1 of the batch in 'x' is singular"});
  const double nan = std::nan("");
  invalid(
      [&] {
        linalg::svd(matrices({1, nan, 0, 1}, {1, 2, 2}));
      },
      {"svd: ", "matrix 0 of the batch in 'x' holds infinities or NaN"});
  invalid(
      [&] {
        linalg::eigh(matrices({nan, 0, 0, 1}, {2, 2}));
      },
      {"the matrix in 'x' holds infinities or NaN"});
  invalid(
      [&] {
        linalg::eigvals(matrices({1, 0, 0, 1, /**/ 1, nan, 0, 1}, {2, 2, 2}));
      },
      {"eig: ", "matrix 1 of the batch in 'x' holds infinities or NaN"});
}

// The error names the first fault, whichever thread finds a fault first.
TEST(Linalg, FaultsAreTheSameForAnyNumberOfThreads) {
  Tensor x = broadcast_to(eye(40, {.cols = 40, .dtype = kFloat64}), {64, 40, 40});
  const Tensor zero = where(arange(64) >= 17, 0.0, 1.0);
  x = x * reshape(astype(zero, kFloat64), {64, 1, 1});
  for (const int threads : {1, 2, 7}) {
    set_thread_count(threads);
    EXPECT_NE(message_of([&] { linalg::inv(x); }).find("matrix 17 of the batch"),
              std::string::npos);
  }
  set_thread_count(0);
}

// Routines run on the thread that calls them, in memory of its own.
TEST(Linalg, BitsAreThoseOfOneThread) {
  const Tensor x = random::normal({300, 24, 24}, {.dtype = kFloat64, .key = random::key(3)});
  const Tensor square = matmul(x, matrix_transpose(x)) + eye(24, {.cols = 24, .dtype = kFloat64});
  const auto all = [&] {
    return std::vector<Tensor>{linalg::eigh(square).vectors, linalg::svd(x).u, linalg::inv(x),
                               linalg::cholesky(square),     linalg::qr(x).q,  linalg::pinv(x)};
  };
  set_thread_count(1);
  const std::vector<Tensor> want = all();
  for (const int threads : {2, 7}) {
    set_thread_count(threads);
    const std::vector<Tensor> got = all();
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(array_equal(got[i], want[i]).item<bool>()) << i << " with " << threads;
    }
  }
  set_thread_count(0);
}

// Matrices up to 64 rows have loops of their own; within a larger one, which is an identity
// elsewhere, they go to LAPACK, with the same signs.
TEST(Linalg, SmallMatricesAreAsPartsOfLargeOnes) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const double tolerance = dtype == kFloat32 ? 2e-4 : 1e-12;
    for (const int64_t n : {1, 2, 16, 33, 64}) {
      const auto drawn = [&](int64_t columns, uint64_t seed) {
        return random::normal({n, columns}, {.dtype = dtype, .key = random::key(seed)});
      };
      const auto widened = [&](const Tensor& x) {  // [80, 80]
        Tensor all = eye(80, {.cols = 80, .dtype = dtype});
        all.at(slice(0, n), slice(0, n)) = x;
        return all;
      };
      const auto part = [&](const Tensor& x) { return x.at(slice(0, n), slice(0, n)); };
      const auto expect_alike = [&](const Tensor& small, const Tensor& large) {
        EXPECT_LT(max(abs(small - large)).item<double>(), tolerance) << n << " " << name(dtype);
      };
      const Tensor x = drawn(n, 1), b = drawn(3, 2);
      const Tensor square = matmul(x, matrix_transpose(x)) + eye(n, {.dtype = dtype});
      expect_alike(linalg::cholesky(square), part(linalg::cholesky(widened(square))));
      const Tensor right = concat({b, zeros({80 - n, 3}, {.dtype = dtype})});
      expect_alike(linalg::solve(square, b), linalg::solve(widened(square), right).at(slice(0, n)));
      const auto small = linalg::qr(x), large = linalg::qr(widened(x));
      expect_alike(small.q, part(large.q));
      expect_alike(small.r, part(large.r));
    }
  }
  const Tensor tall = random::normal({20, 7}, {.dtype = kFloat64, .key = random::key(3)});
  for (const char* mode : {"reduced", "complete"}) {
    for (const Tensor& x : {tall, matrix_transpose(tall)}) {
      const auto [q, r] = linalg::qr(x, {.mode = mode});
      EXPECT_LT(max(abs(matmul(q, r) - x)).item<double>(), 1e-13);
      const Tensor one = eye(q.shape()[1], {.dtype = kFloat64});
      EXPECT_LT(max(abs(matmul(matrix_transpose(q), q) - one)).item<double>(), 1e-13);
    }
  }
}

// The derivative of a determinant is its matrix of cofactors, singular or not.
TEST(Linalg, GradientOfASingularDeterminant) {
  const auto det = [](const Tensor& x) { return linalg::det(x); };
  expect_near(gradient_of(det, matrices({1, 2, 2, 4}, {2, 2})), {4, -2, -2, 1}, 1e-12);
  expect_near(gradient_of(det, matrices({0, 0, 0, 0, 2, 0, 0, 0, 3}, {3, 3})),
              {6, 0, 0, 0, 0, 0, 0, 0, 0}, 1e-12);
  const Tensor flipped = matrices({0, 1, 1, 0}, {2, 2});
  expect_near(gradient_of(det, flipped), {0, -1, -1, 0}, 1e-12);
}

// d log det(x) = tr(x^-1 dx); of the cholesky factor it is twice the sum of logarithms of
// diagonals.
TEST(Linalg, GradientsOfOneFunctionByTwoWays) {
  const Tensor x = matrices({4, 1, 0.5, 1, 3, -0.5, 0.5, -0.5, 2}, {3, 3});
  const Tensor by_lu = gradient_of([](const Tensor& t) { return linalg::logdet(t); }, x);
  const Tensor by_cholesky = gradient_of(
      [](const Tensor& t) { return 2.0 * sum(log(linalg::diagonal(linalg::cholesky(t)))); }, x);
  // The second reads the lower half alone: both halves of the first reach it.
  const Tensor lower = tril(by_lu) + matrix_transpose(triu(by_lu, {.k = 1}));
  expect_near(by_cholesky, lower.to_vector<double>(), 1e-12);
  const Tensor by_values =
      gradient_of([](const Tensor& t) { return sum(log(linalg::eigvalsh(t))); }, x);
  expect_near(by_values, lower.to_vector<double>(), 1e-12);
  const Tensor by_singular =
      gradient_of([](const Tensor& t) { return sum(log(linalg::svdvals(t))); }, x);
  expect_near(by_singular, by_lu.to_vector<double>(), 1e-12);
}

// The whole of a complex decomposition does not depend on the phases that it chooses, nor does its
// gradient: the gradient of |x|^2 is 2 x.
TEST(Linalg, GradientsOfComplexVectors) {
  const std::vector<std::complex<double>> values = {{1, 2},  {-1, 0.5}, {0, 1},
                                                    {2, -1}, {0.3, 0},  {1, 1}};
  const Tensor x = reshape(Tensor(values), {3, 2});
  const auto rebuilt = [](const Tensor& t) {
    const auto f = linalg::svd(t, {.full_matrices = false});
    const Tensor y = matmul(f.u * astype(f.s, kComplex128), f.vh);
    return sum(real(y * conj(y)));
  };
  const Tensor g = gradient_of(rebuilt, x);
  const auto got = g.to_vector<std::complex<double>>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(std::abs(got[i] - 2.0 * values[i]), 0, 1e-12);
  }
}

TEST(Linalg, WhatHasNoDerivativeSaysSo) {
  const Tensor x = matrices({1, 2, 3, 4, 5, 7}, {3, 2});
  const auto slope = [&](auto f) { return message_of([&] { gradient_of(f, x); }); };
  EXPECT_NE(slope([](const Tensor& t) { return linalg::svd(t).u; }).find("full_svd"),
            std::string::npos);
  EXPECT_NE(slope([](const Tensor& t) {
              return linalg::qr(t, {.mode = "complete"}).q;
            }).find("complete_qr"),
            std::string::npos);
}

TEST(Linalg, HasTheFunctionsOfTheStandard) {
  const Tensor x = matrices({1, 2, 3, 4}, {2, 2});
  expect_near(linalg::matmul(x, linalg::matrix_transpose(x)), {5, 11, 11, 25}, 0);
  expect_near(linalg::vecdot(x, x), {5, 25}, 0);
  expect_near(linalg::outer(Tensor(std::vector<double>{1, 2}), Tensor(std::vector<double>{3})),
              {3, 6}, 0);
  expect_near(linalg::tensordot(x, x, 2), {30}, 0);
}

// spec: T16.c
TEST(Image, CropsMirrorsAndBrightens) {
  const Tensor x = reshape(arange(12, {.dtype = kFloat64}), {1, 3, 4, 1});
  expect_near(image::crop(x, 1, 2, 2, 2), {6, 7, 10, 11}, 0);
  expect_near(image::flip_left_right(x), {3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8}, 0);
  expect_near(image::adjust_brightness(image::crop(x, 0, 0, 1, 2), 0.5), {0.5, 1.5}, 0);
}

// spec: T16.b
TEST(Image, RandomCropsLieAnywhereInTheImage) {
  const Tensor rows = reshape(arange(5 * 4), {5, 4, 1});
  std::vector<int> seen(20);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Tensor y = image::random_crop(rows, {3, 2}, {.key = random::key(seed)});
    ASSERT_EQ(y.shape(), (Shape{3, 2, 1}));
    const std::vector<int> got = y.to_vector<int>();
    const int first = got[0];
    ++seen[static_cast<std::size_t>(first)];
    EXPECT_EQ(got,
              (std::vector<int>{first, first + 1, first + 4, first + 5, first + 8, first + 9}));
  }
  for (int row = 0; row < 5; ++row) {
    for (int column = 0; column < 4; ++column) {
      const bool fits = row <= 2 && column <= 2;
      EXPECT_EQ(seen[static_cast<std::size_t>(row * 4 + column)] > 0, fits);
    }
  }
  expect_error(
      [&] {
        image::random_crop(rows, {6, 2});
      },
      ErrorCode::kInvalidArgument,
      {"image.random_crop: x has shape [5,4,1], out of which 6 x 2 pixels cannot be cut"});
}

// spec: T22
TEST(Fourier, RefusesWhatHasNoMeaning) {
  const Tensor z = astype(ones({4}), kComplex64);
  expect_error([&] { fft::rfft(z); }, ErrorCode::kInvalidArgument, {"rfft", "complex64"});
  expect_error([&] { fft::irfft(ones({1})); }, ErrorCode::kInvalidArgument,
               {"a transform to 0 elements along axis 0", "give n"});
  expect_error(
      [&] {
        fft::rfft(ones({2, 0}));
      },
      ErrorCode::kInvalidArgument, {"no element to transform"});
}

// Long transforms are two passes over a matrix, and transforms of real numbers have half the
// length.
TEST(Fourier, LongTransformsAgreeWithTheirInverse) {
  for (const int64_t n : {1 << 10, 1536, 1 << 14, 3 << 13, 1 << 16, 20011}) {
    const Tensor x = random::normal({n}, {.dtype = kFloat64, .key = random::key(7)});
    const Tensor y = fft::fft(x), back = real(fft::ifft(y));
    EXPECT_LT(max(abs(back - x)).item<double>(), 1e-12) << n;
    const Tensor half = fft::rfft(x);
    const Tensor part = slice(y, {0}, {n / 2 + 1});
    EXPECT_LT(max(abs(half - part)).item<double>(), 1e-9) << n;
    EXPECT_LT(max(abs(fft::irfft(half, {.n = n}) - x)).item<double>(), 1e-12) << n;
  }
}

// With and without dropout, whose mask is not stored either.
TEST(Attention, MemoryIsLinearInTheLength) {
  const auto peak = [](int64_t length, double dropout) {
    const auto data = [&](uint64_t seed) {
      return random::normal({2, length, 16}, {.key = random::key(seed)});
    };
    const Tensor q = data(1), k = data(2), v = data(3);
    const MemoryScope memory;
    gradient_of(
        [&](const Tensor& t) {
          return sum(
              nn::scaled_dot_product_attention(t, k, v, {.causal = true, .dropout = dropout}));
        },
        q);
    return static_cast<double>(memory.stats().peak_bytes);
  };
  for (const double dropout : {0.0, 0.1}) {
    const double once = peak(512, dropout), four_times = peak(2048, dropout);
    EXPECT_LT(four_times, 4.5 * once);
    EXPECT_LT(four_times, 2.0 * 2048 * 2048);  // a quarter of one matrix of scores for each head
  }
}

// Attention with dropout of three tenths, over several blocks of queries and keys.
struct Dropped {
  static constexpr double kDropout = 0.3;
  using Inputs = std::array<Tensor, 4>;  // q, k, v, bias

  static Inputs inputs() {
    const auto data = [](const IntList& shape, uint64_t seed) {
      return random::normal(shape, {.dtype = kFloat64, .key = random::key(seed)});
    };
    return {data({2, 3, 70, 4}, 1), data({2, 3, 130, 4}, 2), data({2, 3, 130, 5}, 3),
            data({130}, 4)};
  }
  static Tensor fused(const Inputs& in, const Tensor& key) {
    return nn::scaled_dot_product_attention(
        in[0], in[1], in[2], {.causal = true, .dropout = kDropout, .bias = in[3], .key = key});
  }
  // The same by whole matrices, and a mask that is written out.
  static Tensor composed(const Inputs& in, const Tensor& key) {
    const Tensor scores = matmul(in[0], in[1], {.transpose_y = true}) / 2.0 + in[3];
    const Tensor seen = tril(ones({70, 130}, {.dtype = kBool}));
    const Tensor weights = nn::softmax(where(seen, scores, -1e30));
    const Tensor chance(static_cast<float>(1 - kDropout));
    const Tensor kept = random::bernoulli(chance, scores.shape(), {.key = key});
    return matmul(where(kept, weights / (1 - kDropout), 0.0), in[2]);
  }
};

void expect_all_near(const Tensor& got, const Tensor& want, double tolerance) {
  ASSERT_EQ(got.shape(), want.shape());
  EXPECT_LT(max(abs(got - want)).item<double>(), tolerance);
}

// spec: T20
TEST(Attention, DropoutIsAMaskOfTheWeights) {
  const Tensor key = random::key(9);
  const Dropped::Inputs in = Dropped::inputs();
  expect_all_near(Dropped::fused(in, key), Dropped::composed(in, key), 1e-13);
  const Tensor ct = random::normal({2, 3, 70, 5}, {.dtype = kFloat64, .key = random::key(5)});
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto with = [&](const Tensor& t) {
      Dropped::Inputs other = in;
      other[i] = t;
      return other;
    };
    const auto fused = [&](const Tensor& t) { return Dropped::fused(with(t), key); };
    const auto composed = [&](const Tensor& t) { return Dropped::composed(with(t), key); };
    const Tensor slope = gradient_of(fused, in[i], ct);
    expect_all_near(slope, gradient_of(composed, in[i], ct), 1e-12);
    const Tensor way =
        random::normal(in[i].shape(), {.dtype = kFloat64, .key = random::key(6 + i)});
    const Tensor step = 1e-5 * way, moved = fused(in[i] + step) - fused(in[i] - step);
    const double difference = sum(ct * moved).item<double>() / 2e-5;
    EXPECT_NEAR(sum(slope * way).item<double>(), difference, 1e-6 * std::fabs(difference)) << i;
    if (i == 2) continue;  // y is linear in v
    const auto squares = [&](const auto& f) {
      return [&](const Tensor& t) { return sum(square(gradient_of(f, t, ct))); };
    };
    expect_all_near(gradient_of(squares(fused), in[i]), gradient_of(squares(composed), in[i]),
                    1e-10);
  }
}

// spec: T20
TEST(Attention, KeysOfDropout) {
  const Dropped::Inputs in = Dropped::inputs();
  const SeedScope seed(5);
  Generator same = ambient().generator;
  const Tensor y = Dropped::fused(in, {});
  EXPECT_TRUE(same_value(y, Dropped::fused(in, same.next_key()))) << "the next key of the thread";
  EXPECT_FALSE(same_value(y, Dropped::fused(in, {})));
  same.next_key();
  nn::scaled_dot_product_attention(in[0], in[1], in[2]);
  EXPECT_EQ(ambient().generator, same) << "without dropout nothing is drawn";
  // A key for each example: as if they were called one by one.
  const Tensor keys = random::split(random::key(3), 2), both = Dropped::fused(in, keys);
  for (int64_t n = 0; n < 2; ++n) {
    const Dropped::Inputs one = {in[0].at(n), in[1].at(n), in[2].at(n), in[3]};
    EXPECT_TRUE(same_value(Dropped::fused(one, keys.at(n)), both.at(n)));
  }
  const auto narrow = [&](DType dtype) {
    const auto part = [&](std::size_t i) { return astype(astype(in[i], kBFloat16), dtype); };
    return nn::scaled_dot_product_attention(part(0), part(1), part(2),
                                            {.dropout = 0.5, .key = random::key(1)});
  };
  expect_all_near(astype(narrow(kBFloat16), kFloat64), narrow(kFloat64), 0.05);
}

// spec: T20
TEST(Attention, DropoutHasTheSameBitsForAllThreads) {
  const auto data = [](uint64_t seed) {
    return random::normal({3, 600, 8}, {.key = random::key(seed)});
  };
  const Tensor q = data(1), k = data(2), v = data(3);
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 7}) {
    set_thread_count(threads);
    const auto attend = [&](const Tensor& t) {
      return nn::scaled_dot_product_attention(q, t, v, {.dropout = 0.2, .key = random::key(4)});
    };
    const std::vector<Tensor> found = {attend(k), gradient_of(attend, k, v)};
    if (first.empty()) first = found;
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(same_value(found[i], first[i]));
  }
  set_thread_count(0);
}

TEST(Attention, QueriesThatSeeNothingGiveZeros) {
  const Tensor q = ones({2, 3}), k = ones({4, 3}), v = ones({4, 2});
  const Tensor mask = stack({zeros({4}, {.dtype = kBool}), ones({4}, {.dtype = kBool})});
  const auto attend = [&](const Tensor& t) {
    return nn::scaled_dot_product_attention(t, k, v, {.mask = mask});
  };
  expect_near(attend(q), {0, 0, 1, 1}, 1e-6);
  expect_near(gradient_of(attend, q), {0, 0, 0, 0, 0, 0}, 1e-6);
  const Tensor none = zeros({0, 3});
  expect_near(nn::scaled_dot_product_attention(q, none, zeros({0, 2})), {0, 0, 0, 0}, 0);
}

TEST(Attention, HalfTypesComputeInFloat32) {
  const auto data = [](uint64_t seed) {
    return random::normal({2, 40, 8}, {.key = random::key(seed)});
  };
  const Tensor q = data(1), k = data(2), v = data(3);
  const auto half = [](const Tensor& x) { return astype(x, kBFloat16); };
  const Tensor y = nn::scaled_dot_product_attention(half(q), half(k), half(v));
  EXPECT_EQ(y.dtype(), kBFloat16);
  const auto whole = [&](const Tensor& x) { return astype(half(x), kFloat32); };
  const Tensor want = half(nn::scaled_dot_product_attention(whole(q), whole(k), whole(v)));
  EXPECT_TRUE(array_equal(y, want).item<bool>());
}

}  // namespace
}  // namespace etude
