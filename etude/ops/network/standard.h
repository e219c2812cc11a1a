// SPDX-License-Identifier: Apache-2.0
// Common parts of normalization.cc and group_normalization.cc: checks of scale and offset, rules of
// a normalisation and its gradient, and second derivatives.
#pragma once

#include <vector>

#include "etude/core/call/values.h"
#include "etude/core/op/op.h"
#include "etude/core/tensor.h"

namespace etude::ops {

// The shape in which a parameter with a number for each index of `axes` of x broadcasts to x, and
// the parameter in that shape. throws: kInvalidArgument, with the name of the operand, for other
// sizes.
Shape shape_along(const Tensor& parameter, const char* name, const Tensor& x,
                  const std::vector<int>& axes);
Tensor along(const Tensor& parameter, const char* name, const Tensor& x,
             const std::vector<int>& axes);

// For records of a normalisation with operands x, scale?, offset?, and of its gradient with x,
// scale?, ct.
//
// throws: kInvalidArgument if one of the `count` operands after x is present and not of shape
// [features].
void require_vectors(const TypeCall& call, std::size_t count, int64_t features);
// The types of dx and of the gradients of scale and offset. throws: kInvalidArgument if ct does not
// have the shape of x.
Types standard_gradient_types(const TypeCall& call, int64_t features);
// Samples of the gradient, made from samples of the normalisation.
std::vector<Sample> standard_gradient_samples(std::vector<Sample> samples);
// Returns `cotangents`, in which the cotangents of x, scale and offset are absent unless they are
// needed.
Values wanted_of(const VjpCall& call, Values cotangents);

// x minus its means, divided by its standard deviations along some axes.
struct Standard {
  Standard(const Tensor& x, std::vector<int64_t> along, double epsilon);
  Tensor average(const Tensor& u) const;
  // The transposed derivative of x -> h.
  Tensor project(const Tensor& u) const;

  std::vector<int64_t> axes;
  Tensor h, deviations;  // `deviations`: their inverses
};

// A call of the gradient of a normalisation: with g = ct scale, it returns project(g) and, summed
// over the axes that scale lacks, sum(ct h) and sum(ct). `scale`, which may be absent, has the last
// axes of x.
struct StandardGradient {
  const Tensor& scale;
  const Tensor& ct;
  bool wants_scale;
};

// The cotangents of x, scale and ct, from the cotangents of the three results, which may be absent.
Values standard_gradient_vjp(const Standard& s, const StandardGradient& call,
                             const std::vector<Tensor>& cotangents);

}  // namespace etude::ops
