// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/init.h"

#include <cmath>

#include "etude/base/check.h"
#include "etude/core/builtin.h"
#include "etude/ops/random.h"

namespace etude::nn {
namespace {

// Deviation of a standard normal distribution cut at two deviations.
constexpr double kTruncated = 0.8796256610342398;

struct Fans {
  double in, out;
};

// The last axes are inputs and outputs; those before them are the receptive field.
Fans fans_of(const Shape& shape) {
  ETUDE_REQUIRE(shape.rank() > 0, "this initialiser needs a shape with an axis, not a scalar");
  const int last = shape.rank() - 1;
  double field = 1;
  for (int axis = 0; axis < last - 1; ++axis) field *= static_cast<double>(shape[axis]);
  const auto in = static_cast<double>(shape[last > 0 ? last - 1 : 0]);
  return {field * in, field * static_cast<double>(shape[last])};
}

Tensor uniform_within(const Shape& shape, double limit) {
  return random::uniform(shape, {.low = Tensor(-limit), .high = Tensor(limit), .dtype = kFloat32});
}

Tensor normal_of(const Shape& shape, double variance) {
  const double stddev = std::sqrt(variance) / kTruncated;
  return random::truncated_normal(shape, {.stddev = Tensor(stddev), .dtype = kFloat32});
}

Tensor filled(const Shape& shape, double value) {
  return internal::full(intern_type(kFloat32, shape), value);
}

}  // namespace

Tensor zeros(const Shape& shape) { return filled(shape, 0); }
Tensor ones(const Shape& shape) { return filled(shape, 1); }
Initializer constant(double value) {
  return [value](const Shape& shape) { return filled(shape, value); };
}

Initializer random_uniform(double low, double high) {
  return [=](const Shape& shape) {
    return random::uniform(shape, {.low = Tensor(low), .high = Tensor(high), .dtype = kFloat32});
  };
}
Initializer random_normal(double mean, double stddev) {
  return [=](const Shape& shape) {
    return random::normal(shape,
                          {.mean = Tensor(mean), .stddev = Tensor(stddev), .dtype = kFloat32});
  };
}
Initializer truncated_normal(double mean, double stddev) {
  return [=](const Shape& shape) {
    return random::truncated_normal(
        shape, {.mean = Tensor(mean), .stddev = Tensor(stddev), .dtype = kFloat32});
  };
}

Tensor glorot_uniform(const Shape& shape) {
  const Fans fans = fans_of(shape);
  return uniform_within(shape, std::sqrt(6 / (fans.in + fans.out)));
}
Tensor he_uniform(const Shape& shape) {
  return uniform_within(shape, std::sqrt(6 / fans_of(shape).in));
}
Tensor lecun_uniform(const Shape& shape) {
  return uniform_within(shape, std::sqrt(3 / fans_of(shape).in));
}

Tensor glorot_normal(const Shape& shape) {
  const Fans fans = fans_of(shape);
  return normal_of(shape, 2 / (fans.in + fans.out));
}
Tensor he_normal(const Shape& shape) { return normal_of(shape, 2 / fans_of(shape).in); }
Tensor lecun_normal(const Shape& shape) { return normal_of(shape, 1 / fans_of(shape).in); }

}  // namespace etude::nn
