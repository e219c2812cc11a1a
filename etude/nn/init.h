// SPDX-License-Identifier: Apache-2.0
// Initialisers: what fills the parameters of a new layer. Random ones draw from the generator of
// this thread, so set_seed or a SeedScope decides the weights of a model.
#pragma once

#include <functional>

#include "etude/core/shape.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

// A float32 tensor of the given shape. A filter [.., in, out] has receptive field * in inputs.
using Initializer = std::function<Tensor(const Shape& shape)>;

Tensor zeros(const Shape& shape);
Tensor ones(const Shape& shape);
// Makers of initialisers: Dense(3, 4, {.weight_init = nn::constant(0.5)}).
Initializer constant(double value);
Initializer random_uniform(double low = -0.05, double high = 0.05);
Initializer random_normal(double mean = 0, double stddev = 0.05);
// Without values beyond two deviations.
Initializer truncated_normal(double mean = 0, double stddev = 0.05);

// Uniform within sqrt(6 / (in + out)), sqrt(6 / in) and sqrt(3 / in). throws: kInvalidArgument for
// a shape of rank 0.
Tensor glorot_uniform(const Shape& shape);
Tensor he_uniform(const Shape& shape);
Tensor lecun_uniform(const Shape& shape);
// The same variance, truncated normal.
Tensor glorot_normal(const Shape& shape);
Tensor he_normal(const Shape& shape);
Tensor lecun_normal(const Shape& shape);

}  // namespace nn
}  // namespace etude
