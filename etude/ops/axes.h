// SPDX-License-Identifier: Apache-2.0
// Attributes "axis" and "keepdims" of op records, and helpers of rules for them.
#pragma once

#include <string_view>
#include <vector>

#include "etude/core/op/attrs.h"
#include "etude/core/op/op.h"
#include "etude/core/tensor.h"
#include "etude/ops/calls.h"

namespace etude::ops {

// The list attribute `name` as a shape. throws: kInvalidArgument for a negative size.
Shape shape_of(const Attrs& attrs, std::string_view name);

// The optional attribute "device" of a record that creates tensors; cpu:0 if it is absent.
Device device_of(const Attrs& attrs);

// The attribute "axis" of a value of `shape`, counted from the front. throws: kOutOfRange.
int axis_of(const Attrs& attrs, const Shape& shape);

// The axes of the list attribute "axis", counted from the front; all of them if it is absent.
// throws: kOutOfRange, and kInvalidArgument for an axis given twice.
std::vector<int> axes_of(const Attrs& attrs, int rank);
// `shape` without `axes`, or (with keepdims) with size 1 in their place.
Shape reduced_shape(const Shape& shape, const std::vector<int>& axes, bool keepdims);
// The number of elements of `shape` that are reduced to a single element along `axes`.
int64_t reduced_count(const Shape& shape, const std::vector<int>& axes);

// The result of reducing a value of `shape` over `axes`, with these axes restored as size 1.
Tensor with_axes(const Tensor& y, const Shape& shape, const std::vector<int>& axes);

}  // namespace etude::ops
