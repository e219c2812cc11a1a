// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/context.h"
#include "etude/ops.h"
#include "etude/ops/image.h"
#include "etude/ops/random.h"

namespace etude::image {

Tensor random_crop(const Tensor& x, const IntList& size, const RandomCropOptions& options,
                   CallSite where) {
  return internal::located("image.random_crop", where, [&] {
    const ContextScope scope(ContextStack::top(), where);
    const std::vector<int64_t>& sizes = size.values();
    const Shape& shape = x.shape();
    ETUDE_REQUIRE(sizes.size() == 2, "size has {} numbers, but must be [height, width]",
                  sizes.size());
    ETUDE_REQUIRE(shape.rank() >= 3,
                  "x has shape {}, but an image is [.., height, width, channels]",
                  shape.to_string());
    std::vector<Tensor> keys(2);
    if (options.key.has_value()) keys = unstack(random::split(options.key, 2));
    Tensor y = x;
    for (std::size_t i = 0; i < 2; ++i) {
      const int axis = shape.rank() - 3 + static_cast<int>(i);
      ETUDE_REQUIRE(sizes[i] >= 0 && sizes[i] <= shape[axis],
                    "x has shape {}, out of which {} x {} pixels cannot be cut", shape.to_string(),
                    sizes[0], sizes[1]);
      const Tensor start =
          random::randint({}, 0, shape[axis] - sizes[i] + 1, {.dtype = kInt64, .key = keys[i]});
      const Tensor steps = arange(0, {.stop = static_cast<double>(sizes[i]), .dtype = kInt64});
      y = take(y, start + steps, {.axis = axis});
    }
    return y;
  });
}

}  // namespace etude::image
