// SPDX-License-Identifier: Apache-2.0
// The random functions on images. All other functions of etude::image are in ops.h.
#pragma once

#include "etude/core/op/attrs.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace image {

struct RandomCropOptions {
  Tensor key = {};  // as in random.h: absent draws one from this thread's generator
};
// Crops x [.., h, w, c] to `size` [height, width] at a random position, which is uniform and the
// same for all leading axes. Derivatives pass to x.
//
// throws: kInvalidArgument if x is smaller, or is not an image.
Tensor random_crop(const Tensor& x, const IntList& size, const RandomCropOptions& options = {},
                   CallSite where = CallSite::here());

}  // namespace image
}  // namespace etude
