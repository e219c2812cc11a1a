// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/layers/noise.h"

#include <cmath>

#include "etude/core/option_ranges.h"
#include "etude/nn/internal/phase.h"
#include "etude/ops.h"
#include "etude/ops/random.h"

namespace etude::nn {
namespace {

double checked(const char* layer, double p, CallSite where) {
  etude::internal::check_range(layer, "p", p, up_to(0, 1), where);
  return p;
}

Tensor normal_like(const Tensor& x, double mean, double stddev) {
  return random::normal(
      x.shape(),
      {.mean = astype(mean, x.dtype()), .stddev = astype(stddev, x.dtype()), .dtype = x.dtype()});
}

// x / (1 - p) where a draw for each element of `shape` keeps it, with probability 1 - p; else 0.
Tensor dropped(const Tensor& x, double p, const Shape& shape, CallSite where) {
  const Tensor kept = random::bernoulli(Tensor(1 - p), shape);
  return etude::where(kept, Arg(x, where) * (1 / (1 - p)), 0.0);
}

}  // namespace

GaussianNoise::GaussianNoise(double stddev, CallSite where) : stddev_(stddev) {
  etude::internal::check_range("GaussianNoise", "stddev", stddev, at_least(0), where);
}
Tensor GaussianNoise::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "GaussianNoise", where, 0, [&] {
    if (stddev_ == 0 || !internal::is_trained("GaussianNoise", where)) return x;
    return Arg(x, where) + normal_like(x, 0, stddev_);
  });
}

GaussianDropout::GaussianDropout(double p, CallSite where)
    : p_(checked("GaussianDropout", p, where)) {}
Tensor GaussianDropout::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "GaussianDropout", where, 0, [&] {
    if (p_ == 0 || !internal::is_trained("GaussianDropout", where)) return x;
    return Arg(x, where) * normal_like(x, 1, std::sqrt(p_ / (1 - p_)));
  });
}

AlphaDropout::AlphaDropout(double p, CallSite where) : p_(checked("AlphaDropout", p, where)) {}
Tensor AlphaDropout::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "AlphaDropout", where, 0, [&] {
    if (p_ == 0 || !internal::is_trained("AlphaDropout", where)) return x;
    // The value of selu far below 0: minus scale times alpha.
    constexpr double kLowest = -1.0507009873554805 * 1.6732632423543772;
    const double kept = 1 - p_;
    const double scale = 1 / std::sqrt(kept * (1 + p_ * kLowest * kLowest));
    const double shift = -scale * p_ * kLowest;
    const Tensor stays = random::bernoulli(Tensor(kept), x.shape());
    return etude::where(stays, Arg(x, where), kLowest) * scale + shift;
  });
}

SpatialDropout::SpatialDropout(double p, CallSite where)
    : p_(checked("SpatialDropout", p, where)) {}
Tensor SpatialDropout::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "SpatialDropout", where, 0, [&] {
    internal::require_input(x, -3, -1, {}, "");
    if (p_ == 0 || !internal::is_trained("SpatialDropout", where)) return x;
    Shape shape = x.shape();
    for (int axis = 1; axis + 1 < shape.rank(); ++axis) shape.set(axis, 1);
    return dropped(x, p_, shape, where);
  });
}

StochasticDepth::StochasticDepth(double p, CallSite where)
    : p_(checked("StochasticDepth", p, where)) {}
Tensor StochasticDepth::operator()(const Tensor& x, CallSite where) const {
  return internal::run_layer(this, "StochasticDepth", where, 0, [&] {
    internal::require_input(x, -1, -1, {}, "");
    if (p_ == 0 || !internal::is_trained("StochasticDepth", where)) return x;
    Shape shape = x.shape();
    for (int axis = 1; axis < shape.rank(); ++axis) shape.set(axis, 1);
    return dropped(x, p_, shape, where);
  });
}

}  // namespace etude::nn
