// SPDX-License-Identifier: Apache-2.0
// Regions of images, as detectors of objects use them.
#include <algorithm>
#include <vector>

#include "etude/core/dtype_functions.h"
#include "etude/onnx/import/importer.h"
#include "etude/onnx/import/windows.h"
#include "etude/ops.h"

namespace etude::onnx::importing {
namespace regions {
namespace {

using Results = std::vector<Tensor>;

// Samples along an axis of each region: their positions [regions, cells, samples], and which of
// them are there.
struct Samples {
  Tensor at, is_there;
  Tensor count;  // [regions, 1]; absent if it is the same for all regions
};

// The attributes of RoiAlign.
struct Plan {
  explicit Plan(const NodeCall& n)
      : mode(n.text("mode", "avg")),
        samples(n.integer("sampling_ratio", 0)),
        height(n.integer("output_height", 1)),
        width(n.integer("output_width", 1)),
        scale(n.real("spatial_scale", 1)) {
    n.require(mode == "avg" || mode == "max", "the mode is '{}', not avg or max", mode);
    n.require(n.rank(0) == 4 && n.rank(1) == 2 && n.shape(1)[1] == 4 && samples >= 0 &&
                  samples < 1024 && height > 0 && width > 0 && height < 65536 && width < 65536 &&
                  n.rank(2) == 1 && n.shape(2)[0] == n.shape(1)[0],
              "the image is {}, the regions {}, the numbers of images {}, and the results are {} x "
              "{} with {} samples",
              n.shape(0).to_string(), n.shape(1).to_string(), n.shape(2).to_string(), height, width,
              samples);
    const std::string kind = n.text("coordinate_transformation_mode",
                                    n.opset() < 16 ? "output_half_pixel" : "half_pixel");
    n.require(kind == "half_pixel" || kind == "output_half_pixel",
              "coordinate_transformation_mode is '{}', not half_pixel or output_half_pixel", kind);
    offset = kind == "half_pixel" ? 0.5 : 0;
  }

  // The samples along an axis of the image with these columns of the corners. Without a
  // sampling_ratio, a region of s pixels has ceil(s / cells) samples in a cell. A region that is
  // larger than the image would need more than there are places for: its results are NaN.
  Samples along(const NodeCall& n, int64_t low, int64_t high, int64_t cells, int64_t pixels) const {
    const int64_t regions = n.shape(1)[0];
    const auto corner = [&](int64_t i) {
      return slice(n.x(1), {0, i}, {regions, i + 1}) * scale - offset;
    };
    const Tensor begin = corner(low);
    Tensor size = corner(high) - begin;
    if (offset == 0) size = maximum(size, 1.0);
    const Tensor cell = size / static_cast<double>(cells);
    Samples out;
    const int64_t most = samples > 0 ? samples : pixels / cells + 1;
    const Tensor number = reshape(as_dtype(numbered(most), n.dtype(0)), {1, 1, most});
    const Tensor first = reshape(as_dtype(numbered(cells), n.dtype(0)), {1, cells, 1});
    Tensor each;  // the part of a cell for a sample
    if (samples > 0) {
      each = (number + 0.5) / static_cast<double>(samples);
    } else {
      const Tensor wanted = maximum(ceil(cell), 0.0);
      const Tensor none = full(Sizes{}, astype(Tensor(etude::nan), n.dtype(0)));
      out.count = where(wanted <= static_cast<double>(most), wanted, none);
      each = (number + 0.5) / expand_dims(maximum(wanted, 1.0), 1);
      out.is_there = number < expand_dims(wanted, 1);
    }
    out.at = expand_dims(begin, 1) + expand_dims(cell, 1) * (first + each);
    return out;
  }

  std::string mode;
  int64_t samples, height, width;
  double scale, offset = 0;
};

// The two neighbours of positions, the weight of the second, and whether the position is near the
// image.
struct Neighbours {
  Neighbours(const Tensor& at, int64_t pixels) {
    const auto size = static_cast<double>(pixels);
    is_near = logical_and(at >= -1.0, at <= size);
    const Tensor inside = maximum(at, 0.0);
    const Tensor first = minimum(floor(inside), size - 1);
    low = astype(first, kInt64);
    high = astype(minimum(first + 1.0, size - 1), kInt64);
    weight = where(first >= size - 1, zeros_like(inside), inside - first);
  }
  Tensor low, high, weight, is_near;
};

// A mean of samples is a product of the image with a matrix for each of its axes: the weights of
// the pixels, [regions, cells, pixels].
Tensor weights_of(const Samples& samples, int64_t each, int64_t pixels) {
  const Neighbours near(samples.at, pixels);
  Tensor is_used = near.is_near;
  if (samples.is_there.has_value()) is_used = logical_and(is_used, samples.is_there);
  const Tensor zero = zeros_like(near.weight);
  const Tensor second = where(is_used, near.weight, zero);
  const Tensor first = where(is_used, 1.0 - near.weight, zero);
  const auto spread = [&](const Tensor& at, const Tensor& weight) {
    const Tensor is_at = expand_dims(at, -1) == numbered(pixels);
    return where(is_at, expand_dims(weight, -1), zeros_like(expand_dims(weight, -1)));
  };
  const Tensor sums = sum(spread(near.low, first) + spread(near.high, second), {.axis = {2}});
  if (!samples.count.has_value()) return sums / static_cast<double>(each);
  return sums / expand_dims(maximum(samples.count, 1.0), 1);
}

Tensor mean_of_samples(const NodeCall& n, const Plan& plan, const Samples& rows,
                       const Samples& columns) {
  const Shape image = n.shape(0);
  const Tensor down = weights_of(rows, plan.samples, image[2]);
  const Tensor right = weights_of(columns, plan.samples, image[3]);
  const bool is_one = image[0] == 1;  // all regions are in the only image
  const Tensor own = is_one ? n.x(0) : take(n.x(0), as_dtype(n.x(2), kInt64), {.axis = 0});
  return matmul(matmul(expand_dims(down, 1), own), expand_dims(right, 1), {.transpose_y = true});
}

// [regions, cells, samples] as [regions, cells * samples].
Tensor joined(const Tensor& x) {
  const Shape& shape = x.type()->shape();
  return reshape(x, {shape[0], shape[1] * shape[2]});
}

// The largest product of a pixel and its weight.
Tensor largest_of_samples(const NodeCall& n, const Plan& plan, const Samples& rows,
                          const Samples& columns) {
  const int64_t count = n.shape(1)[0], channels = n.shape(0)[1];
  const Neighbours y(joined(rows.at), n.shape(0)[2]), x(joined(columns.at), n.shape(0)[3]);
  const Tensor batch = reshape(as_dtype(n.x(2), kInt64), {count, 1, 1});
  const Tensor pixels = channels_last(n, n.x(0));
  const auto pick = [&](const Tensor& r, const Tensor& c, const Tensor& weight) {
    const std::vector<Tensor> at = broadcast_arrays({batch, expand_dims(r, 2), expand_dims(c, 1)});
    return gather_nd(pixels, stack(at, {.axis = -1})) * expand_dims(weight, -1);
  };
  const Tensor wy = expand_dims(y.weight, 2), wx = expand_dims(x.weight, 1);
  const Tensor parts[] = {pick(y.low, x.low, (1.0 - wy) * (1.0 - wx)),
                          pick(y.low, x.high, (1.0 - wy) * wx),
                          pick(y.high, x.low, wy * (1.0 - wx)), pick(y.high, x.high, wy * wx)};
  const Tensor is_near =
      expand_dims(logical_and(expand_dims(y.is_near, 2), expand_dims(x.is_near, 1)), -1);
  const Tensor best = maximum(maximum(parts[0], parts[1]), maximum(parts[2], parts[3]));
  const Tensor cells =
      reshape(where(is_near, best, zeros_like(best)),
              {count, plan.height, plan.samples, plan.width, plan.samples, channels});
  return permute_dims(max(cells, {.axis = {2, 4}}), {0, 3, 1, 2});
}

// Regions of images as results of one size: the mean or the largest of samples in each cell.
Results roi_align(const NodeCall& n) {
  const Plan plan(n);
  const Samples rows = plan.along(n, 1, 3, plan.height, n.shape(0)[2]);
  const Samples columns = plan.along(n, 0, 2, plan.width, n.shape(0)[3]);
  if (plan.mode == "avg") return {mean_of_samples(n, plan, rows, columns)};
  if (plan.samples == 0) {
    n.refuse(
        "its mode is max and its sampling_ratio 0, so the number of samples depends on the "
        "regions. "
        "Export it with a number of samples");
  }
  return {largest_of_samples(n, plan, rows, columns)};
}

// A box as its corners.
struct Box {
  double left, top, right, bottom;
  double area() const { return (right - left) * (bottom - top); }
};
Box box_of(const double* at, bool is_center) {
  if (is_center) {
    return {at[0] - at[2] / 2, at[1] - at[3] / 2, at[0] + at[2] / 2, at[1] + at[3] / 2};
  }
  return {std::min(at[1], at[3]), std::min(at[0], at[2]), std::max(at[1], at[3]),
          std::max(at[0], at[2])};
}
double overlap(const Box& a, const Box& b) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (width <= 0 || height <= 0) return 0;
  const double both = width * height, either = a.area() + b.area() - both;
  return either > 0 ? both / either : 0;
}

// The boxes with the best scores, of each class, that do not overlap a better one.
Results non_max_suppression(const NodeCall& n) {
  n.require(n.rank(0) == 3 && n.rank(1) == 3 && n.shape(0)[2] == 4 &&
                n.shape(1)[0] == n.shape(0)[0] && n.shape(1)[2] == n.shape(0)[1],
            "the boxes are {} and the scores {}", n.shape(0).to_string(), n.shape(1).to_string());
  const std::vector<double> boxes = n.reals(std::size_t{0}), scores = n.reals(std::size_t{1});
  const int64_t most = n.has(2) ? n.integer(2) : 0;
  const double limit = n.has(3) ? n.real(3) : 0;
  const double least = n.has(4) ? n.real(4) : -etude::inf;
  const bool is_center = n.integer("center_point_box", 0) != 0;
  const int64_t count = n.shape(0)[1], classes = n.shape(1)[1];
  Sizes out;
  for (int64_t b = 0; b < n.shape(0)[0]; ++b) {
    for (int64_t c = 0; c < classes; ++c) {
      const double* const score = scores.data() + (b * classes + c) * count;
      Sizes order;
      for (int64_t i = 0; i < count; ++i) {
        if (score[i] > least) order.push_back(i);
      }
      std::ranges::stable_sort(order, [&](int64_t x, int64_t y) { return score[x] > score[y]; });
      std::vector<Box> kept;
      n.importer().need_steps(n, static_cast<int64_t>(order.size()));
      for (const int64_t i : order) {
        if (static_cast<int64_t>(kept.size()) >= most) break;
        const Box box = box_of(boxes.data() + (b * count + i) * 4, is_center);
        n.importer().need_steps(n, static_cast<int64_t>(kept.size()));
        const bool is_hidden = std::ranges::any_of(
            kept, [&](const Box& better) { return overlap(box, better) > limit; });
        if (is_hidden) continue;
        kept.push_back(box);
        out.insert(out.end(), {b, c, i});
      }
    }
  }
  return {Tensor(out, Shape{static_cast<int64_t>(out.size()) / 3, 3})};
}

}  // namespace
}  // namespace regions

void add_region_imports(Imports& to) {
  using namespace regions;
  to.insert(to.end(),
            {{"RoiAlign", "X rois batch_indices",
              "coordinate_transformation_mode mode output_height output_width sampling_ratio "
              "spatial_scale",
              roi_align},
             {"NonMaxSuppression",
              "boxes scores max_output_boxes_per_class? iou_threshold? score_threshold?",
              "center_point_box", non_max_suppression, Import::Kind::kSizes}});
}

}  // namespace etude::onnx::importing
