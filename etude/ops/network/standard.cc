// SPDX-License-Identifier: Apache-2.0
#include "etude/ops/network/standard.h"

#include <utility>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/records.h"

namespace etude::ops {

using Ints = std::vector<int64_t>;

// The shape in which a parameter of the sizes that x has on `axes` broadcasts to x.
Shape shape_along(const Tensor& parameter, const char* name, const Tensor& x,
                  const std::vector<int>& axes) {
  Shape own, wide(std::vector<int64_t>(static_cast<std::size_t>(x.rank()), 1));
  for (const int axis : axes) {
    own.push_back(x.shape()[axis]);
    wide.set(axis, x.shape()[axis]);
  }
  ETUDE_REQUIRE(parameter.shape() == own,
                "operand '{}' has shape {}, but x of shape {} needs {} of shape {}", name,
                parameter.shape().to_string(), x.shape().to_string(), name, own.to_string());
  return wide;
}

Tensor along(const Tensor& parameter, const char* name, const Tensor& x,
             const std::vector<int>& axes) {
  return reshaped(parameter, shape_along(parameter, name, x, axes));
}

void require_vectors(const TypeCall& call, std::size_t count, int64_t features) {
  for (std::size_t i = 1; i <= count; ++i) {
    ETUDE_REQUIRE(!call.has(i) || call.shape(i) == Shape({features}),
                  "operand '{}' has shape {}, but must be [{}]", call.op.operand(i).name,
                  call.shape(i).to_string(), features);
  }
}

Types standard_gradient_types(const TypeCall& call, int64_t features) {
  ETUDE_REQUIRE(call.shape(2) == call.shape(0),
                "operand 'ct' has shape {}, but operand 'x' has shape {}; they must be equal",
                call.shape(2).to_string(), call.shape(0).to_string());
  const Type* vector = call.make(call.dtype(0), {features});
  return {call.types[0], vector, vector};
}

std::vector<Sample> standard_gradient_samples(std::vector<Sample> samples) {
  for (Sample& sample : samples) sample.operands[2] = sample.operands[0];
  return samples;
}

Values wanted_of(const VjpCall& call, Values cotangents) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (!call.wants(i) || !call.in.has(i)) cotangents[i] = {};
  }
  return cotangents;
}

Standard::Standard(const Tensor& x, Ints along, double epsilon) : axes(std::move(along)) {
  const Tensor away = x - average(x);
  deviations = rsqrt(average(away * away) + epsilon);
  h = away * deviations;
}

Tensor Standard::average(const Tensor& u) const {
  return mean(u, {.axis = axes, .keepdims = true});
}

Tensor Standard::project(const Tensor& u) const {
  return deviations * (u - average(u) - h * average(u * h));
}

// With h and r of Standard, M for averages and g = ct scale, the op returns dx = project(g) = r (g
// - M g - h M(g h)), sum(ct h) and sum(ct). For cotangents a, b, c of these, project is its own
// transpose, and x changes dx through h and through r, whose derivative is -r^2 h / n.
Values standard_gradient_vjp(const Standard& s, const StandardGradient& call,
                             const std::vector<Tensor>& cotangents) {
  Values out(3);
  const Tensor &scale = call.scale, &ct = call.ct, &a = cotangents[0];
  const auto scaled = [&](const Tensor& t) { return scale.has_value() ? t * scale : t; };
  Tensor to_h;
  if (a.has_value()) {
    const Tensor g = scaled(ct), back = s.project(a);
    const Tensor along = s.average(g * s.h), a_along = s.average(a * s.h);
    if (call.wants_scale) out[1] = internal::sum_to(ct * back, scale.shape());
    add_to(out[2], scaled(back));
    to_h = -(s.deviations * (a * along + g * a_along));
    const Tensor by_r = s.average(a * g) - s.average(a) * s.average(g) - a_along * along;
    add_to(out[0], -(s.deviations * s.deviations * s.h * by_r));
  }
  if (cotangents[1].has_value()) {
    add_to(out[2], cotangents[1] * s.h);
    add_to(to_h, cotangents[1] * ct);
  }
  if (cotangents[2].has_value()) add_to(out[2], broadcasted(cotangents[2], ct.shape()));
  if (to_h.has_value()) add_to(out[0], s.project(to_h));
  return out;
}

}  // namespace etude::ops
