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

// Returns a float32 tensor of the given shape. A filter [.., in, out] counts as a matrix whose
// number of inputs is `in` times the size of the receptive field.
using Initializer = std::function<Tensor(const Shape& shape)>;

// All elements are 0, or 1.
Tensor zeros(const Shape& shape);
Tensor ones(const Shape& shape);
// Factories of initialisers: Dense(3, 4, {.weight_init = nn::constant(0.5)}).
Initializer constant(double value);
Initializer random_uniform(double low = -0.05, double high = 0.05);
Initializer random_normal(double mean = 0, double stddev = 0.05);
// A normal distribution without values beyond two standard deviations.
Initializer truncated_normal(double mean = 0, double stddev = 0.05);

// Uniform distributions on [-a, a]. In this order, a is sqrt(6 / (in + out)), sqrt(6 / in) and
// sqrt(3 / in).
// throws: kInvalidArgument for a shape of rank 0.
Tensor glorot_uniform(const Shape& shape);
Tensor he_uniform(const Shape& shape);
Tensor lecun_uniform(const Shape& shape);
// Truncated normal distributions with the same variances.
Tensor glorot_normal(const Shape& shape);
Tensor he_normal(const Shape& shape);
Tensor lecun_normal(const Shape& shape);

struct VarianceScalingOptions {
  double scale = 1;
  std::string mode = "fan_in";  // or "fan_out", "fan_avg": divisor of the variance
  std::string distribution = "truncated_normal";  // or "normal", "uniform"

  static constexpr void ranges(const auto& option) {
    option("scale", &VarianceScalingOptions::scale, above(0));
  }
};
// Distributions with mean 0 and variance scale / fan, the general form of the initialisers above.
//
// throws: kInvalidArgument for another mode or distribution, or a scale that is not positive.
Initializer variance_scaling(VarianceScalingOptions options = {},
                             CallSite where = CallSite::here());

// A random orthogonal matrix times gain. A shape [.., out] counts as a matrix with `out` columns.
// Its columns are orthonormal, or its rows if there are fewer rows. throws (call): kInvalidArgument
// for a rank below 2.
// cost: O(n m min(n, m)), on the host in float64.
Initializer orthogonal(double gain = 1);
// Ones on the diagonal of the last two axes, in the middle of the receptive field, and zeros
// elsewhere. A layer with this weight returns its input. throws: kInvalidArgument for a rank below
// 2.
Tensor identity(const Shape& shape);

}  // namespace nn
}  // namespace etude
