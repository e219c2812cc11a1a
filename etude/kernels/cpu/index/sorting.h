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
// Results: the k largest elements, largest first, and their positions. NaN is not among them as
// long as there are numbers.
void prepare_top_k(const PrepareCall& call, int axis, int64_t k);
// Position of the first largest (or smallest) element, or of the first NaN, as int64. axis < 0: of
// all elements, as if flat.
void prepare_arg_extreme(const PrepareCall& call, int axis, bool largest);
// Operand 0, floating; operand 1, of the same type, is sorted along the axis. Elements of operand 0
// at which operand 1 is equal are replaced by their mean. NaN equals nothing.
void prepare_average_ties(const PrepareCall& call, int axis);
// The insertion index of each element of operand 1 in operand 0, which is sorted: before equal
// elements, or after them. As int64.
void prepare_search(const PrepareCall& call, bool behind);

}  // namespace etude::kernels::cpu
