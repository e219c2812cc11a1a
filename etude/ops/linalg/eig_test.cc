// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and eigenvectors of general matrices: their definition, and derivatives against
// central differences.
#include <cmath>
#include <complex>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/gradient.h"
#include "etude/ops.h"
#include "etude/ops/gradient_of.h"
#include "etude/ops/random.h"
#include "tests/expect_error.h"

namespace etude::eig_test {
namespace {

Tensor matrices(const std::vector<double>& values, const Shape& shape) {
  return reshape(Tensor(values), shape);
}

using Complex = std::complex<double>;

// A matrix without a symmetry, whose eigenvalues are distinct: a real one and a conjugate pair.
Tensor turning() { return matrices({1, 2, 0.5, -3, 2, 1, 0.2, -0.4, 4}, {3, 3}); }
Tensor turning_complex() {
  const std::vector<Complex> turned = {{0, 1}, {1, 0.5}, {0, 0},    {2, -1}, {0.5, 0},
                                       {1, 1}, {-1, 0},  {0, -0.3}, {1, 2}};
  return astype(turning(), kComplex128) + reshape(Tensor(turned), {3, 3});
}

TEST(Eig, EigenvectorsOfGeneralMatrices) {
  const auto check = [](const Tensor& x, double tolerance) {
    const auto [values, vectors] = linalg::eig(x);
    const bool is_wide = x.dtype() == kFloat64 || x.dtype() == kComplex128;
    EXPECT_EQ(values.dtype(), is_wide ? kComplex128 : kComplex64);
    EXPECT_EQ(vectors.dtype(), values.dtype());
    EXPECT_EQ(vectors.shape(), x.shape());
    const Tensor moved = matmul(astype(x, values.dtype()), vectors);
    const Tensor scaled = vectors * expand_dims(values, -2);
    EXPECT_LT(max(abs(moved - scaled)).item<double>(), tolerance);
    const Tensor lengths = linalg::vector_norm(vectors, {.axis = -2});
    EXPECT_LT(max(abs(lengths - 1.0)).item<double>(), tolerance);
    EXPECT_TRUE(array_equal(linalg::eigvals(x), values).item<bool>());
  };
  check(turning(), 1e-13);
  check(turning_complex(), 1e-13);
  check(astype(turning(), kFloat32), 1e-5);
  check(astype(turning_complex(), kComplex64), 1e-5);
  const Tensor batch = random::normal({5, 40, 40}, {.dtype = kFloat64, .key = random::key(5)});
  check(batch, 1e-11);
  // A rotation by a right angle.
  const Tensor turn = linalg::eigvals(matrices({0, -1, 1, 0}, {2, 2}));
  EXPECT_EQ(turn.to_vector<Complex>(), (std::vector<Complex>{{0, 1}, {0, -1}}));
  EXPECT_EQ(linalg::eig(zeros({2, 0, 0})).vectors.shape(), (Shape{2, 0, 0}));
}

// The derivative of f at x, by central differences in the real and imaginary part of each element.
std::vector<Complex> differences(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  constexpr double kStep = 1e-6;
  const std::vector<Complex> values = astype(x, kComplex128).to_vector<Complex>();
  const auto along = [&](std::size_t i, Complex step) {
    const auto at = [&](double sign) {
      std::vector<Complex> moved = values;
      moved[i] += sign * step;
      const Tensor y = reshape(Tensor(moved), x.shape());
      return f(is_complex(x.dtype()) ? y : real(y)).item<double>();
    };
    return (at(1) - at(-1)) / (2 * kStep);
  };
  std::vector<Complex> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    out.emplace_back(along(i, kStep), is_complex(x.dtype()) ? along(i, {0, kStep}) : 0);
  }
  return out;
}

// Functions that do not depend on the phases of vectors.
TEST(Eig, GradientsOfGeneralEigenvectors) {
  const Tensor weights = matrices({1, -2, 0.5, 3, 1, -1, 2, 0.3, 1}, {3, 3});
  const auto of_vectors = [&](const Tensor& x) {
    const Tensor v = linalg::eig(x).vectors;
    return sum(square(real(v * conj(v))) * weights);
  };
  const auto of_both = [&](const Tensor& x) {
    const auto [w, v] = linalg::eig(x);
    return sum(real(v * conj(v) * w) * weights) + sum(imag(w) * real(w));
  };
  const auto of_values = [](const Tensor& x) { return sum(square(abs(linalg::eigvals(x)))); };
  const auto check = [](const char* name, const auto& f, const Tensor& x) {
    SCOPED_TRACE(name);
    const auto got = astype(gradient_of(f, x), kComplex128).template to_vector<Complex>();
    const std::vector<Complex> want = differences(f, x);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(std::abs(got[i] - want[i]), 0, 1e-7) << i << ": " << got[i] << want[i];
    }
  };
  for (const Tensor& x : {turning(), turning_complex()}) {
    check("vectors", of_vectors, x);
    check("both", of_both, x);
    check("values", of_values, x);
  }
  // The second derivative, by the first.
  const auto slope = [&](const Tensor& x) { return sum(square(gradient(of_both, x))); };
  const Tensor x = turning();
  check("second", slope, x);
}

// spec: T12.c
TEST(Eig, GradientsOfEqualEigenvalues) {
  const auto of_vectors = [](const Tensor& x) { return sum(abs(linalg::eig(x).vectors)); };
  const Tensor equal_values =
      reshape(Tensor(std::vector<double>{2, 0, 0, 2, /**/ 1, 1, 0, 3}), {2, 2, 2});
  const auto got = gradient_of(of_vectors, equal_values).to_vector<double>();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(std::isinf(got[static_cast<std::size_t>(i)]), i < 4) << i;
  // A sum over all values is the trace, whatever they are.
  const auto trace = [](const Tensor& x) { return sum(real(linalg::eigvals(x))); };
  expect_near(gradient_of(trace, matrices({2, 0, 0, 2}, {2, 2})), {1, 0, 0, 1}, 1e-14);
  // A block of Jordan's form has one eigenvector only.
  const Tensor block = matrices({0, 1, 0, 0, 0, 1, 0, 0, 0}, {3, 3});
  const auto first = [](const Tensor& x) {
    return sum(real(linalg::eigvals(x)) * Tensor(std::vector<double>{1, 0, 0}));
  };
  EXPECT_NE(message_of([&] { gradient_of(first, block); })
                .find("gradient of eig: the matrix in 'x' has fewer independent eigenvectors than "
                      "rows, so that its eigenvalues have no derivative"),
            std::string::npos);
}

}  // namespace
}  // namespace etude::eig_test
