// SPDX-License-Identifier: Apache-2.0
// Initialisers of the parameters of new layers. Random initialisers draw from the generator of this
// thread, so set_seed or a SeedScope determines the weights of a model.
#pragma once

#include <functional>
#include <string>

#include "etude/core/option_ranges.h"
#include "etude/core/shape.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

// Returns a float32 tensor of the given shape.
using Initializer = std::function<Tensor(const Shape& shape)>;

// Returns a tensor of zeros.
Tensor zeros(const Shape& shape);
// Returns a tensor of ones.
Tensor ones(const Shape& shape);
// Returns an initialiser of tensors whose elements are all `value`.
Initializer constant(double value);
// Returns an initialiser of a uniform distribution on [low, high).
Initializer random_uniform(double low = -0.05, double high = 0.05);
// Returns an initialiser of a normal distribution.
Initializer random_normal(double mean = 0, double stddev = 0.05);
// A normal distribution without values beyond two standard deviations.
Initializer truncated_normal(double mean = 0, double stddev = 0.05);

// Uniform distributions on [-a, a], with a = sqrt(6 / (fan_in + fan_out)) for Glorot,
// sqrt(6 / fan_in) for He, and sqrt(3 / fan_in) for LeCun. For a filter [.., in, out], fan_in is
// `in` times the size of the receptive field, and fan_out is `out` times that size.
//
// throws: kInvalidArgument for a shape of rank 0.
Tensor glorot_uniform(const Shape& shape);
Tensor he_uniform(const Shape& shape);
Tensor lecun_uniform(const Shape& shape);
// Truncated normal distributions with the same variances as the uniform ones.
Tensor glorot_normal(const Shape& shape);
Tensor he_normal(const Shape& shape);
Tensor lecun_normal(const Shape& shape);

struct VarianceScalingOptions {
  double scale = 1;
  std::string mode = "fan_in";  // the divisor of the variance; or "fan_out", "fan_avg"
  std::string distribution = "truncated_normal";  // or "normal", "uniform"

  static constexpr void ranges(const auto& option) {
    option("scale", &VarianceScalingOptions::scale, above(0));
  }
};
// A distribution with mean 0 and variance scale / fan; `mode` selects the fan. The Glorot, He and
// LeCun initialisers are special cases.
//
// throws: kInvalidArgument for an unknown mode or distribution, or a scale that is not positive.
Initializer variance_scaling(VarianceScalingOptions options = {},
                             CallSite where = CallSite::here());

// A random orthogonal matrix times gain. A shape [.., out] counts as a matrix with `out` columns.
// The columns are orthonormal. If there are fewer rows than columns, the rows are orthonormal
// instead.
// throws (call): kInvalidArgument for a rank below 2.
// cost: O(n m min(n, m)), on the host in float64.
Initializer orthogonal(double gain = 1);
// Ones on the diagonal of the last two axes, in the middle of the receptive field, and zeros
// elsewhere. A linear layer with this weight and no bias returns its input.
// throws: kInvalidArgument for a rank below 2.
Tensor identity(const Shape& shape);

}  // namespace nn
}  // namespace etude
