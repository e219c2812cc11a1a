// SPDX-License-Identifier: Apache-2.0
// The random functions on images; all others are in ops.h, as etude::image too.
#pragma once

#include "etude/core/attrs.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace image {

struct RandomCropOptions {
  Tensor key = {};  // as in random.h: absent draws one from this thread's generator
};
// size [height, width] pixels of x [.., h, w, c] from a place that is drawn, the same for all
// leading axes, each with equal chances. Derivatives go to x.
//
// throws: kInvalidArgument if x is smaller, or is no image.
Tensor random_crop(const Tensor& x, const IntList& size, const RandomCropOptions& options = {},
                   CallSite where = CallSite::here());

}  // namespace image
}  // namespace etude
