// SPDX-License-Identifier: Apache-2.0
// The log-likelihood of points under a mixture of Gaussians with a Wishart prior on their inverse
// covariances, by all parameters of the mixture; an objective of Srajer, Kukelova, Fitzgibbon, "A
// Benchmark of Selected Algorithmic Differentiation Tools", 2018.
//
// The inverse covariance of component c is Q^T Q with a lower triangular Q, whose diagonal is
// exp(q), so that every vector of parameters is a mixture. Its weight is the softmax of alpha.
// Parameters: alpha [k]; means [k, d]; for each component q [d] and the elements of Q below its
// diagonal, column by column [d (d - 1) / 2].
#pragma once

#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>
#include <vector>

#include "benchmarks/numbers/programs/log_sum_exp.h"
#include "benchmarks/numbers/programs/random.h"

namespace etude::bench::numbers {

struct Gmm {
  static constexpr std::size_t kDimension = 20, kComponents = 25, kPoints = 1000;
  static constexpr std::size_t kBelow = kDimension * (kDimension - 1) / 2;
  static constexpr std::size_t kFactor = kDimension + kBelow;  // numbers of one Q
  static constexpr std::size_t kMeans = kComponents;           // where they begin
  static constexpr std::size_t kFactors = kMeans + kComponents * kDimension;
  static constexpr std::size_t kCount = kFactors + kComponents * kFactor;
  static constexpr double kGamma = 1.1;       // the prior's scale is 1 / gamma^2
  static constexpr std::size_t kFreedom = 2;  // its degrees of freedom beyond d + 1

  std::vector<double> points = Random(17).uniforms(kPoints * kDimension, -1, 1);
  std::vector<double> parameters = make_parameters();

  template <class T>
  T operator()(const std::vector<T>& x) const {
    using std::exp;
    std::vector<T> diagonal(kComponents * kDimension), constant(kComponents);
    for (std::size_t c = 0; c < kComponents; ++c) {
      const T* q = &x[kFactors + c * kFactor];
      constant[c] = x[c];  // alpha + log |det Q|
      for (std::size_t i = 0; i < kDimension; ++i) {
        diagonal[c * kDimension + i] = exp(q[i]);
        constant[c] += q[i];
      }
    }
    std::vector<T> terms(kComponents), centred(kDimension), scaled(kDimension);
    T total(kConstant);
    for (std::size_t n = 0; n < kPoints; ++n) {
      for (std::size_t c = 0; c < kComponents; ++c) {
        const T* mean = &x[kMeans + c * kDimension];
        for (std::size_t i = 0; i < kDimension; ++i) {
          centred[i] = points[n * kDimension + i] - mean[i];
        }
        multiply(&diagonal[c * kDimension], below<T>(x, c), centred, scaled);
        T square(0);
        for (std::size_t i = 0; i < kDimension; ++i) square += scaled[i] * scaled[i];
        terms[c] = constant[c] - 0.5 * square;
      }
      total += log_sum_exp<T>(terms);
    }
    const T weights = log_sum_exp<T>(std::span<const T>(x).first(kComponents));
    return total - static_cast<double>(kPoints) * weights + log_prior<T>(x, diagonal);
  }

  std::vector<double> hand() const;

 private:
  static constexpr double kConstant =
      -0.9189385332046727 * static_cast<double>(kPoints * kDimension);  // of log(2 pi) / 2

  static std::vector<double> make_parameters() {
    Random random(19);
    std::vector<double> x = random.uniforms(kCount, -0.3, 0.3);
    for (std::size_t i = kMeans; i < kFactors; ++i) x[i] = random.uniform(-1, 1);
    return x;
  }
  template <class T>
  static const T* below(const std::vector<T>& x, std::size_t component) {
    return &x[kFactors + component * kFactor + kDimension];
  }

  // out = Q x.
  template <class T>
  static void multiply(const T* diagonal, const T* below, const std::vector<T>& x,
                       std::vector<T>& out) {
    for (std::size_t i = 0; i < kDimension; ++i) out[i] = diagonal[i] * x[i];
    for (std::size_t column = 0; column < kDimension; ++column) {
      for (std::size_t row = column + 1; row < kDimension; ++row) {
        out[row] += *below++ * x[column];
      }
    }
  }

  // log of the Wishart density of every Q^T Q, with n = d + 1 + m degrees of freedom: m log |det Q|
  // - gamma^2 / 2 |Q|^2 + n d (log gamma - log(2) / 2) - log Gamma_d(n / 2).
  template <class T>
  static T log_prior(const std::vector<T>& x, const std::vector<T>& diagonal) {
    T squares(0), determinants(0);
    for (const T& each : diagonal) squares += each * each;
    for (std::size_t c = 0; c < kComponents; ++c) {
      const T* q = &x[kFactors + c * kFactor];
      for (std::size_t i = 0; i < kDimension; ++i) determinants += q[i];
      for (std::size_t i = kDimension; i < kFactor; ++i) squares += q[i] * q[i];
    }
    return static_cast<double>(kFreedom) * determinants - 0.5 * kGamma * kGamma * squares +
           static_cast<double>(kComponents) * log_normalisation();
  }
  static double log_normalisation() {
    const double d = kDimension, n = d + 1 + kFreedom;
    double log_gamma = 0.25 * d * (d - 1) * std::log(std::numbers::pi);
    for (std::size_t i = 0; i < kDimension; ++i) {
      log_gamma += std::lgamma(0.5 * (n - static_cast<double>(i)));
    }
    return n * d * (std::log(kGamma) - 0.5 * std::numbers::ln2) - log_gamma;
  }

  void add_point(std::size_t n, const std::vector<double>& diagonal,
                 const std::vector<double>& constant, std::vector<double>& out) const;
};

// Adds the gradient of point n. With r the softmax of the terms, y = x - mean and z = Q y,
// component c gets r by alpha, r Q^T z by the mean, r (1 - z_i y_i exp(q_i)) by q_i and -r z_i y_j
// by Q_ij.
inline void Gmm::add_point(std::size_t n, const std::vector<double>& diagonal,
                           const std::vector<double>& constant, std::vector<double>& out) const {
  std::vector<double> y(kDimension), z(kComponents * kDimension), terms(kComponents);
  std::vector<double> one(kDimension), share(kComponents);
  const double* point = &points[n * kDimension];
  for (std::size_t c = 0; c < kComponents; ++c) {
    const double* mean = &parameters[kMeans + c * kDimension];
    for (std::size_t i = 0; i < kDimension; ++i) y[i] = point[i] - mean[i];
    multiply(&diagonal[c * kDimension], below(parameters, c), y, one);
    double square = 0;
    for (std::size_t i = 0; i < kDimension; ++i) {
      square += one[i] * one[i];
      z[c * kDimension + i] = one[i];
    }
    terms[c] = constant[c] - 0.5 * square;
  }
  softmax(terms, share);
  for (std::size_t c = 0; c < kComponents; ++c) {
    const double r = share[c];
    const double* mean = &parameters[kMeans + c * kDimension];
    const double* d = &diagonal[c * kDimension];
    const double* zc = &z[c * kDimension];
    double* of_mean = &out[kMeans + c * kDimension];
    double* of_q = &out[kFactors + c * kFactor];
    double* of_below = of_q + kDimension;
    const double* q_below = below(parameters, c);
    out[c] += r;
    for (std::size_t j = 0; j < kDimension; ++j) {
      const double yj = point[j] - mean[j], scale = -r * yj;
      of_q[j] += r + scale * zc[j] * d[j];
      double back = d[j] * zc[j];
      for (std::size_t i = j + 1; i < kDimension; ++i) {
        back += *q_below++ * zc[i];
        *of_below++ += scale * zc[i];
      }
      of_mean[j] += r * back;
    }
  }
}

inline std::vector<double> Gmm::hand() const {
  const std::vector<double>& x = parameters;
  std::vector<double> diagonal(kComponents * kDimension), constant(kComponents), out(kCount);
  for (std::size_t c = 0; c < kComponents; ++c) {
    const double* q = &x[kFactors + c * kFactor];
    constant[c] = x[c];
    for (std::size_t i = 0; i < kDimension; ++i) {
      diagonal[c * kDimension + i] = std::exp(q[i]);
      constant[c] += q[i];
    }
  }
  for (std::size_t n = 0; n < kPoints; ++n) add_point(n, diagonal, constant, out);
  std::vector<double> weights(kComponents);
  softmax(std::span<const double>(x).first(kComponents), weights);
  for (std::size_t c = 0; c < kComponents; ++c) {
    out[c] -= static_cast<double>(kPoints) * weights[c];
    const double* q = &x[kFactors + c * kFactor];
    double* of_q = &out[kFactors + c * kFactor];
    for (std::size_t i = 0; i < kDimension; ++i) {
      const double d = diagonal[c * kDimension + i];
      of_q[i] += static_cast<double>(kFreedom) - kGamma * kGamma * d * d;
    }
    for (std::size_t i = kDimension; i < kFactor; ++i) of_q[i] -= kGamma * kGamma * q[i];
  }
  return out;
}

}  // namespace etude::bench::numbers
