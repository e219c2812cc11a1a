// SPDX-License-Identifier: Apache-2.0
// Convolutions whose windows take pixels at computed positions.
#include <vector>

#include "etude/onnx/import/importer.h"
#include "etude/onnx/import/windows.h"
#include "etude/ops.h"

namespace etude::onnx::importing {
namespace deform {
namespace {

using Results = std::vector<Tensor>;

// The sizes of a node: images [n, channels, height, width], filters [outputs, channels / groups,
// rows, columns].
struct Plan {
  explicit Plan(const NodeCall& n) {
    n.require(n.rank(0) == 4 && n.rank(1) == 4 && n.rank(2) == 4,
              "the image has {} axes, the filter {} and the offsets {}, but 4 are imported",
              n.rank(0), n.rank(1), n.rank(2));
    image = n.shape(0);
    filter = n.shape(1);
    groups = n.integer("group", 1);
    parts = n.integer("offset_group", 1);
    window = window_plan(n, {filter[2], filter[3]}, image);
    count = filter[2] * filter[3];
    n.require(groups > 0 && parts > 0 && image[1] % parts == 0 && filter[0] % groups == 0 &&
                  filter[1] * groups == image[1],
              "the image is {}, the filter {}, and there are {} groups and {} groups of offsets",
              image.to_string(), filter.to_string(), groups, parts);
    const Shape offsets = {image[0], 2 * parts * count, window.results[0], window.results[1]};
    n.require(n.shape(2) == offsets, "the offsets are {}, but {} are needed",
              n.shape(2).to_string(), offsets.to_string());
    if (!n.has(4)) return;
    const Shape masks = {image[0], parts * count, window.results[0], window.results[1]};
    n.require(n.shape(4) == masks, "the mask is {}, but {} is needed", n.shape(4).to_string(),
              masks.to_string());
  }

  Shape image, filter;
  int64_t groups = 1, parts = 1;  // groups of channels for filters, and for offsets
  int64_t count = 0;              // of elements of a window
  WindowPlan window;
};

// The positions along an axis of the image: [n, parts, elements of the window, results...].
Tensor positions(const NodeCall& n, const Plan& plan, int64_t axis) {
  const auto i = static_cast<std::size_t>(axis);
  const int64_t rows = plan.filter[2], columns = plan.filter[3];
  const Tensor offsets = reshape(n.x(2), {plan.image[0], plan.parts, plan.count, 2,
                                          plan.window.results[0], plan.window.results[1]});
  const Tensor own = squeeze(span_of(offsets, 3, axis, axis + 1), {3});
  const DType dtype = n.dtype(2);
  const Tensor begin = on_axis(numbered(plan.window.results[i], dtype), 3 + axis, 5) *
                           static_cast<double>(plan.window.strides[i]) -
                       static_cast<double>(plan.window.before[i]);
  const Tensor element =
      broadcast_to(on_axis(numbered(plan.window.window[i], dtype), axis, 2), {rows, columns});
  const Tensor inside = on_axis(element, 2, 5) * static_cast<double>(plan.window.dilations[i]);
  return own + begin + inside;
}

// The pixels at positions between pixels, with zeros around the image: [n, parts, elements,
// results..., channels of a part].
Tensor sampled(const NodeCall& n, const Plan& plan) {
  const int64_t height = plan.image[2], width = plan.image[3];
  const Tensor pixels = permute_dims(
      reshape(n.x(0), {plan.image[0], plan.parts, plan.image[1] / plan.parts, height, width}),
      {0, 1, 3, 4, 2});
  const Tensor y = positions(n, plan, 0), x = positions(n, plan, 1);
  const Tensor top = floor(y), left = floor(x);
  const Tensor down = y - top, right = x - left;
  Tensor out;
  for (const double dy : {0.0, 1.0}) {
    for (const double dx : {0.0, 1.0}) {
      const Tensor row = top + dy, column = left + dx;
      const Tensor rows = logical_and(row >= 0, row < static_cast<double>(height));
      const Tensor columns = logical_and(column >= 0, column < static_cast<double>(width));
      const Tensor is_inside = logical_and(rows, columns);
      const auto place = [](const Tensor& at, int64_t size) {
        return astype(clip(at, {.min = 0.0, .max = static_cast<double>(size - 1)}), kInt64);
      };
      const Tensor at = stack({place(row, height), place(column, width)}, {.axis = -1});
      const Tensor weight = (dy == 0 ? 1.0 - down : down) * (dx == 0 ? 1.0 - right : right);
      const Tensor inside = where(is_inside, weight, zeros_like(weight));
      const Tensor part =
          gather_nd(pixels, at, {.batch_dims = 2}) * expand_dims(as_dtype(inside, n.dtype(0)), -1);
      out = out.has_value() ? out + part : part;
    }
  }
  return out;
}

Results deformed_convolution(const NodeCall& n) {
  const Plan plan(n);
  const int64_t batch = plan.image[0], parts = plan.parts, count = plan.count;
  const int64_t height = plan.window.results[0], width = plan.window.results[1];
  n.require(plan.image.count() > 0, "the image is {}", plan.image.to_string());
  Tensor columns = sampled(n, plan);
  if (n.has(4)) {
    const Tensor mask = reshape(n.x(4), {batch, parts, count, height, width, 1});
    columns = columns * mask;
  }
  // [n, height, width, channels, elements], then by group.
  const int64_t channels = plan.filter[1], outputs = plan.filter[0] / plan.groups;
  columns = reshape(permute_dims(columns, {0, 3, 4, 1, 5, 2}),
                    {batch * height * width, plan.groups, channels * count});
  const Tensor filter =
      permute_dims(reshape(n.x(1), {plan.groups, outputs, channels * count}), {0, 2, 1});
  const Tensor sums = matmul(permute_dims(columns, {1, 0, 2}), filter);
  Tensor y = reshape(permute_dims(sums, {1, 0, 2}), {batch, height, width, plan.filter[0]});
  if (n.has(3)) y = y + n.x(3);
  return {channels_first(n, y)};
}

}  // namespace
}  // namespace deform

void add_deform_imports(Imports& to) {
  to.push_back({"DeformConv", "X W offset B? mask?",
                "dilations group kernel_shape offset_group pads strides",
                deform::deformed_convolution});
}

}  // namespace etude::onnx::importing
