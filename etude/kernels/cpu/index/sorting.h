// SPDX-License-Identifier: Apache-2.0
// Kernels that compare elements along one axis: sort, positions and extreme positions, search. NaN
// counts as larger than all numbers and comes last in either order.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// Operand 0 in ascending or descending order; the sort is stable.
void prepare_sort(const PrepareCall& call, int axis, bool descending);
// The original index of each element of the sorted operand, as int64.
void prepare_argsort(const PrepareCall& call, int axis, bool descending);
// Results: the k largest elements, largest first, and their positions. NaN is among them only if
// there are fewer than k numbers.
void prepare_top_k(const PrepareCall& call, int axis, int64_t k);
// The position of the first largest (or smallest) element, or of the first NaN, as int64. axis < 0:
// the position among all elements of the flattened operand.
void prepare_arg_extreme(const PrepareCall& call, int axis, bool largest);
// Operand 0 is floating; operand 1 has the same type and is sorted along the axis. Where elements
// of operand 1 are equal, the elements of operand 0 at their positions are replaced by their mean.
// NaN is not equal to NaN.
void prepare_average_ties(const PrepareCall& call, int axis);
// The insertion index of each element of operand 1 in operand 0, which is sorted: before equal
// elements, or after them. As int64.
void prepare_search(const PrepareCall& call, bool behind);

}  // namespace etude::kernels::cpu
