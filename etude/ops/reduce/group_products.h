// SPDX-License-Identifier: Apache-2.0
// Products within groups of rows, computed without division, for derivatives of products that may
// have zero elements. Used by segments.cc and indexing.cc. Kernels compute the products of whole
// groups.
#pragma once

#include "etude/core/tensor.h"

namespace etude::ops {

// Row i of the result is the product of the other rows in the group of row i; ones if there are no
// others. Derivatives of any order are computed from products of rows as well.
//
// shapes: rows [n, ..]; groups [n]; the result [n, ..].
// dtypes: rows floating or complex; groups integers, any.
// cost:   two sorts of the groups, and four passes over the rows.
Tensor products_of_others(const Tensor& rows, const Tensor& groups);

}  // namespace etude::ops
