// SPDX-License-Identifier: Apache-2.0
// Assignment through a mask, x.at(mask) = v, where v does not depend on the number of selected
// elements. It is computed element by element, so that no size depends on data. Used by
// index_expression.cc.
#pragma once

#include "etude/core/index.h"
#include "etude/core/tensor.h"

namespace etude::ops {

// throws: kOutOfRange if the mask, which indexes x from `axis` on, has another size than x there; a
// size of 0 fits each axis.
void require_mask_sizes(const Shape& mask, const Shape& x, int axis);

// Writes `value`, which has the dtype of x. Returns false unless the index has a single mask and no
// array, and the value has size 1 along the selected elements or lacks that axis.
// throws: the errors of at() for such an index and value; x is then unchanged.
bool write_masked(Tensor& x, const Index& index, const Tensor& value, ScatterMode mode,
                  CallSite where);

}  // namespace etude::ops
