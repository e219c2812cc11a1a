// SPDX-License-Identifier: Apache-2.0
#include "etude/io/picture.h"

#include <cmath>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/ops.h"

namespace etude::io {
Tensor image_grid(const Tensor& images, const ImageGridOptions& options, CallSite where) {
  etude::internal::check_options("image_grid", options, where);
  return etude::internal::located("image_grid", where, [&] {
    const Shape& shape = images.shape();
    ETUDE_REQUIRE((shape.rank() == 3 || shape.rank() == 4) && shape[0] > 0,
                  "operand 'images' has shape {}, but must be [n, height, width] or [n, height, "
                  "width, channels] with at least one image",
                  shape.to_string());
    ETUDE_REQUIRE(is_floating(images.dtype()), "operand 'images' is {}, but must be floating",
                  name(images.dtype()));
    const int64_t n = shape[0], height = shape[1], width = shape[2];
    const int64_t channels = shape.rank() == 4 ? shape[3] : 1, m = options.margin;
    const auto square = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(n))));
    const int64_t columns = options.columns > 0 ? options.columns : square;
    const int64_t rows = (n + columns - 1) / columns;
    const Tensor four = reshape(images, {n, height, width, channels});
    const double ground = options.background;
    // Each image with its margin above and to the left; blank ones fill the last row.
    const Tensor cells = pad(four, {0, rows * columns - n, m, 0, m, 0, 0, 0}, {.value = ground});
    const Tensor table = reshape(cells, {rows, columns, height + m, width + m, channels});
    const Tensor whole = reshape(permute_dims(table, {0, 2, 1, 3, 4}),
                                 {rows * (height + m), columns * (width + m), channels});
    return pad(whole, {0, m, 0, m, 0, 0}, {.value = ground});
  });
}

}  // namespace etude::io
