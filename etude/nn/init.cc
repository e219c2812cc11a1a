// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/init.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/ambient.h"
#include "etude/nn/internal/named_init.h"
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
  return random::uniform(shape, {.low = Tensor(-limit), .high = Tensor(limit)});
}

Tensor normal_of(const Shape& shape, double variance) {
  const double stddev = std::sqrt(variance) / kTruncated;
  return random::truncated_normal(shape, {.stddev = Tensor(stddev)});
}

Tensor filled(const Shape& shape, double value) {
  return etude::internal::full(intern_type(ambient().default_dtype, shape), value);
}

// Makes the columns of a matrix [rows, columns] orthonormal, rows >= columns: Gram-Schmidt, twice
// over each column, which leaves errors of a few roundings.
void orthonormalize(std::vector<double>& a, std::size_t rows, std::size_t columns) {
  const auto column_dot = [&](std::size_t i, std::size_t j) {
    double sum = 0;
    for (std::size_t k = 0; k < rows; ++k) sum += a[k * columns + i] * a[k * columns + j];
    return sum;
  };
  for (std::size_t j = 0; j < columns; ++j) {
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t i = 0; i < j; ++i) {
        const double part = column_dot(i, j);
        for (std::size_t k = 0; k < rows; ++k) a[k * columns + j] -= part * a[k * columns + i];
      }
    }
    const double length = std::sqrt(column_dot(j, j));
    for (std::size_t k = 0; k < rows; ++k) a[k * columns + j] /= length;
  }
}

Tensor orthogonal_of(const Shape& shape, double gain) {
  ETUDE_REQUIRE(shape.rank() >= 2, "orthogonal: the shape {} has no two axes", shape.to_string());
  const auto columns = static_cast<std::size_t>(shape[shape.rank() - 1]);
  const std::size_t rows =
      static_cast<std::size_t>(shape.count()) / std::max<std::size_t>(columns, 1);
  const std::size_t tall = std::max(rows, columns), narrow = std::min(rows, columns);
  std::vector<double> a = random::normal({static_cast<int64_t>(tall), static_cast<int64_t>(narrow)},
                                         {.dtype = kFloat64})
                              .to_vector<double>();
  orthonormalize(a, tall, narrow);
  std::vector<double> values(rows * columns);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      const double value = rows >= columns ? a[i * narrow + j] : a[j * narrow + i];
      values[i * columns + j] = gain * value;
    }
  }
  return etude::internal::cast(Tensor(values, shape), ambient().default_dtype);
}

}  // namespace

Tensor zeros(const Shape& shape) { return filled(shape, 0); }
Tensor ones(const Shape& shape) { return filled(shape, 1); }
Initializer constant(double value) {
  return internal::NamedInit{
      "constant", {"value"}, {value}, [](const Shape& shape, double constant, double) {
        return filled(shape, constant);
      }};
}

Initializer random_uniform(double low, double high) {
  return internal::NamedInit{
      "random_uniform", {"low", "high"}, {low, high}, [](const Shape& shape, double a, double b) {
        return random::uniform(shape, {.low = Tensor(a), .high = Tensor(b)});
      }};
}
Initializer random_normal(double mean, double stddev) {
  return internal::NamedInit{"random_normal",
                             {"mean", "stddev"},
                             {mean, stddev},
                             [](const Shape& shape, double m, double s) {
                               return random::normal(shape,
                                                     {.mean = Tensor(m), .stddev = Tensor(s)});
                             }};
}
Initializer truncated_normal(double mean, double stddev) {
  return internal::NamedInit{"truncated_normal",
                             {"mean", "stddev"},
                             {mean, stddev},
                             [](const Shape& shape, double m, double s) {
                               return random::truncated_normal(
                                   shape, {.mean = Tensor(m), .stddev = Tensor(s)});
                             }};
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

Initializer variance_scaling(VarianceScalingOptions options, CallSite where) {
  etude::internal::check_options("variance_scaling", options, where);
  etude::internal::located("variance_scaling", where, [&] {
    const auto& [scale, mode, distribution] = options;
    ETUDE_REQUIRE(mode == "fan_in" || mode == "fan_out" || mode == "fan_avg",
                  "mode is \"{}\", but must be \"fan_in\", \"fan_out\" or \"fan_avg\"", mode);
    ETUDE_REQUIRE(
        distribution == "truncated_normal" || distribution == "normal" || distribution == "uniform",
        "distribution is \"{}\", but must be \"truncated_normal\", \"normal\" or \"uniform\"",
        distribution);
  });
  return [options = std::move(options)](const Shape& shape) {
    const Fans fans = fans_of(shape);
    const double fan = options.mode == "fan_in"    ? fans.in
                       : options.mode == "fan_out" ? fans.out
                                                   : (fans.in + fans.out) / 2;
    const double variance = options.scale / fan;
    if (options.distribution == "uniform") return uniform_within(shape, std::sqrt(3 * variance));
    if (options.distribution == "truncated_normal") return normal_of(shape, variance);
    return random_normal(0, std::sqrt(variance))(shape);
  };
}

Initializer orthogonal(double gain) {
  return internal::NamedInit{
      "orthogonal", {"gain"}, {gain}, [](const Shape& shape, double factor, double) {
        return orthogonal_of(shape, factor);
      }};
}

Tensor identity(const Shape& shape) {
  ETUDE_REQUIRE(shape.rank() >= 2, "identity: the shape {} has no two axes", shape.to_string());
  const int last = shape.rank() - 1;
  int64_t middle = 0;  // of the receptive field, in row-major order
  for (int axis = 0; axis < last - 1; ++axis) middle = middle * shape[axis] + (shape[axis] - 1) / 2;
  const int64_t in = shape[last - 1], out = shape[last];
  std::vector<float> values(static_cast<std::size_t>(shape.count()), 0.0f);
  for (int64_t i = 0; i < std::min(in, out) && !values.empty(); ++i) {
    values[static_cast<std::size_t>((middle * in + i) * out + i)] = 1;
  }
  return etude::internal::cast(Tensor(values, shape), ambient().default_dtype);
}

}  // namespace etude::nn
