// SPDX-License-Identifier: Apache-2.0
// Random functions on images. All other functions of etude::image are in ops.h.
#pragma once

#include "etude/core/op/attrs.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace image {

struct RandomCropOptions {
  Tensor key = {};  // as in random.h; absent: a new key from the generator of this thread
};
// Crops x [.., h, w, c] to `size` [height, width] at a uniformly random position. The position is
// the same for all leading axes. Derivatives pass to x.
//
// throws: kInvalidArgument if x has fewer than three axes or is smaller than `size`.
Tensor random_crop(const Tensor& x, const IntList& size, const RandomCropOptions& options = {},
                   CallSite where = CallSite::here());

}  // namespace image
}  // namespace etude
