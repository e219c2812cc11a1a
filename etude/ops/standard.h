// SPDX-License-Identifier: Apache-2.0
// x about its means and over its deviations along some axes, and the second derivatives of
// normalisation that are made of it. Used by normalization.cc and group_normalization.cc.
#pragma once

#include <vector>

#include "etude/core/tensor.h"
#include "etude/core/values.h"

namespace etude::ops {

struct Standard {
  Standard(const Tensor& x, std::vector<int64_t> along, double epsilon);
  Tensor average(const Tensor& u) const;
  // The transposed derivative of x -> h.
  Tensor project(const Tensor& u) const;

  std::vector<int64_t> axes;
  Tensor h, deviations;  // the inverse ones
};

// A call that gives the gradient of normalisation: with g = ct scale, project(g), and over the axes
// that scale lacks sum(ct h) and sum(ct). `scale`, which may be absent, has the last axes of x.
struct StandardGradient {
  const Tensor& scale;
  const Tensor& ct;
  bool wants_scale;
};

// The cotangents of x, scale and ct from those of the three results, which may be absent.
Values standard_gradient_vjp(const Standard& s, const StandardGradient& call,
                             const std::vector<Tensor>& cotangents);

}  // namespace etude::ops
