// SPDX-License-Identifier: Apache-2.0
// Products within groups of rows, without a division: what derivatives of products need where
// elements are 0. Used by segments.cc and indexing.cc. Not for the products themselves: they have
// kernels.
#pragma once

#include "etude/core/tensor.h"

namespace etude::ops {

// Row i of the result is the product of the other rows of the group of row i; ones if there are
// none. All derivatives of it are made of products of rows, too.
//
// shapes: rows [n, ..]; groups [n]; the result [n, ..].
// dtypes: rows floating or complex; groups integers, any.
// cost:   two sorts of the groups, and four passes over the rows.
Tensor products_of_others(const Tensor& rows, const Tensor& groups);

}  // namespace etude::ops
