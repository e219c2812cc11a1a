// SPDX-License-Identifier: Apache-2.0
// What normalization.cc and group_normalization.cc share: checks of scale and offset, what records
// of a normalisation and its gradient have in common, and second derivatives.
#pragma once

#include <vector>

#include "etude/core/op.h"
#include "etude/core/tensor.h"
#include "etude/core/values.h"

namespace etude::ops {

// The shape in which a parameter with one number for each index of `axes` of x broadcasts to x, and
// the parameter in it. throws: kInvalidArgument if it has others, by the name of the operand.
Shape shape_along(const Tensor& parameter, const char* name, const Tensor& x,
                  const std::vector<int>& axes);
Tensor along(const Tensor& parameter, const char* name, const Tensor& x,
             const std::vector<int>& axes);

// Of records of a normalisation by operands x, scale?, offset? and of its gradient by x, scale?,
// ct.
//
// throws: kInvalidArgument if one of the `count` operands behind x is there and not of shape
// [features].
void require_vectors(const TypeCall& call, std::size_t count, int64_t features);
// The types of dx and of the gradients of scale and offset. throws: kInvalidArgument if ct has
// another shape than x.
Types standard_gradient_types(const TypeCall& call, int64_t features);
// Samples of the gradient from those of the normalisation.
std::vector<Sample> standard_gradient_samples(std::vector<Sample> samples);
// Without the cotangents of x, scale and offset that nobody asks for.
Values wanted_of(const VjpCall& call, Values cotangents);

// x about its means and over its deviations along some axes.
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
