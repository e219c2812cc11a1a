// SPDX-License-Identifier: Apache-2.0
// Images: sampling at computed positions, regions, and windows that are added up.
#include <algorithm>
#include <limits>
#include <vector>

#include "etude/base/internal/checked_int.h"
#include "etude/onnx/import/importer.h"
#include "etude/onnx/import/resize.h"
#include "etude/onnx/import/windows.h"
#include "etude/ops.h"

namespace etude::onnx::importing {
namespace images {
namespace {

using etude::internal::CheckedInt;
using Results = std::vector<Tensor>;

// The positions of the pixels of a result in [-1, 1], for each axis, as coordinates (x, y, 1).
Results affine_grid(const NodeCall& n) {
  const Sizes sizes = n.ints(1);
  n.require(sizes.size() == 4 || sizes.size() == 5,
            "the size has {} numbers, but 4 or 5 are needed", sizes.size());
  const bool is_aligned = n.integer("align_corners", 0) != 0;
  const Sizes spatial(sizes.begin() + 2, sizes.end());
  const std::size_t axes = spatial.size();
  for (const int64_t size : spatial) n.require(size > 0 && size < kMaxCount, "a size is {}", size);
  std::vector<Tensor> columns;
  for (std::size_t i = axes; i-- > 0;) {
    const auto size = static_cast<double>(spatial[i]);
    const Tensor at = numbered(spatial[i], kFloat32);
    const double step = is_aligned ? (size > 1 ? 2 / (size - 1) : 0) : 2 / size;
    const Tensor places = at * step + (is_aligned ? -1 : step / 2 - 1);
    columns.push_back(
        broadcast_to(on_axis(places, static_cast<int64_t>(i), static_cast<int>(axes)), spatial));
  }
  columns.push_back(ones(spatial));
  const Tensor base = as_dtype(
      reshape(stack(columns, {.axis = -1}), {-1, static_cast<int64_t>(axes) + 1}), n.dtype(0));
  const Tensor grid = matmul(base, n.x(0), {.transpose_y = true});
  Sizes shape = {n.shape(0)[0]};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  shape.push_back(static_cast<int64_t>(axes));
  return {reshape(grid, shape)};
}

// Pixels of [n, channels, sizes...] at positions [n, results...], one tensor for each axis.
class Sampler {
 public:
  Sampler(const NodeCall& n, const Tensor& image, bool is_aligned, std::string padding)
      : shape_(image.type()->shape()),
        pixels_(channels_last(n, image)),
        is_aligned_(is_aligned),
        padding_(std::move(padding)) {
    n.require(padding_ == "zeros" || padding_ == "border" || padding_ == "reflection",
              "padding_mode is '{}', not zeros, border or reflection", padding_);
  }

  double size(std::size_t axis) const {
    return static_cast<double>(shape_[static_cast<int>(axis) + 2]);
  }
  // Positions in [-1, 1] as pixels.
  Tensor denormalised(const Tensor& x, std::size_t axis) const {
    if (is_aligned_) return (x + 1.0) / 2.0 * (size(axis) - 1);
    return ((x + 1.0) * size(axis) - 1.0) / 2.0;
  }
  // Positions outside of the image as positions inside.
  Tensor inside(const Tensor& x, std::size_t axis) const {
    if (padding_ == "border") return clip(x, {.min = 0.0, .max = size(axis) - 1});
    if (padding_ == "reflection") return reflected(x, axis);
    return x;
  }
  // [n, results..., channels]; zeros for pixels outside, if the padding is zeros.
  Tensor at(const std::vector<Tensor>& positions) const {
    std::vector<Tensor> rows;
    Tensor is_inside;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const double most = size(i) - 1;
      const Tensor x = padding_ == "reflection" ? reflected(positions[i], i) : positions[i];
      const Tensor fits = logical_and(x >= 0, x <= most);
      is_inside = is_inside.has_value() ? logical_and(is_inside, fits) : fits;
      rows.push_back(astype(clip(x, {.min = 0.0, .max = most}), kInt64));
    }
    const Tensor out = gather_nd(pixels_, stack(rows, {.axis = -1}), {.batch_dims = 1});
    if (padding_ != "zeros") return out;
    return where(expand_dims(is_inside, -1), out, zeros_like(out));
  }

 private:
  Tensor reflected(const Tensor& x, std::size_t axis) const {
    const double low = is_aligned_ ? 0 : -0.5;
    const double high = is_aligned_ ? size(axis) - 1 : size(axis) - 0.5, range = high - low;
    if (range <= 0) return zeros_like(x);
    const Tensor rest = (x - low) % (2 * range);
    return where(rest > range, 2 * range - rest, rest) + low;
  }

  Shape shape_;
  Tensor pixels_;
  bool is_aligned_;
  std::string padding_;
};

// The weights of neighbours at a distance t in [0, 1) from the position of the first.
std::vector<Tensor> neighbour_weights(const Tensor& t, bool is_cubic) {
  if (!is_cubic) return {1.0 - t, t};
  constexpr double a = -0.75;
  const auto far = [&](const Tensor& d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  const auto near = [&](const Tensor& d) { return ((a + 2) * d - (a + 3)) * d * d + 1.0; };
  return {far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)};
}

Results grid_sample(const NodeCall& n) {
  const int axes = n.rank(0) - 2;
  n.require(axes >= 1 && axes <= 3 && n.rank(1) == axes + 2 && n.shape(1)[axes + 1] == axes,
            "the image is {} and the grid {}", n.shape(0).to_string(), n.shape(1).to_string());
  std::string mode = n.text("mode", "linear");
  if (mode == "bilinear") mode = "linear";  // before opset 20
  if (mode == "bicubic") mode = "cubic";
  n.require(mode == "nearest" || mode == "linear" || mode == "cubic",
            "the mode is '{}', not nearest, linear or cubic", mode);
  const Sampler sampler(n, n.x(0), n.integer("align_corners", 0) != 0,
                        n.text("padding_mode", "zeros"));
  std::vector<Tensor> positions, first;
  std::vector<std::vector<Tensor>> weights;
  const DType wide = itemsize(n.dtype(1)) < 4 ? kFloat32 : n.dtype(1);
  for (int i = 0; i < axes; ++i) {
    const int64_t at = axes - 1 - i;  // the grid lists the last axis first
    const Tensor given =
        squeeze(span_of(n.x(1), axes + 1, at, at + 1), {static_cast<int64_t>(axes) + 1});
    const auto axis = static_cast<std::size_t>(i);
    Tensor x = sampler.denormalised(as_dtype(given, wide), axis);
    if (mode == "nearest") x = round(x);
    x = sampler.inside(x, axis);
    positions.push_back(x);
    if (mode == "nearest") continue;
    const Tensor low = floor(x);
    weights.push_back(neighbour_weights(x - low, mode == "cubic"));
    first.push_back(mode == "cubic" ? low - 1.0 : low);
  }
  if (mode == "nearest") return {channels_first(n, sampler.at(positions))};
  const std::size_t each = weights[0].size();
  std::size_t count = 1;
  for (int i = 0; i < axes; ++i) count *= each;
  Tensor out;
  for (std::size_t c = 0; c < count; ++c) {
    std::vector<Tensor> at;
    Tensor weight;
    std::size_t rest = c;
    for (std::size_t i = 0; i < static_cast<std::size_t>(axes); ++i) {
      const std::size_t k = rest % each;
      rest /= each;
      at.push_back(first[i] + static_cast<double>(k));
      weight = weight.has_value() ? weight * weights[i][k] : weights[i][k];
    }
    const Tensor part = sampler.at(at) * expand_dims(as_dtype(weight, n.dtype(0)), -1);
    out = out.has_value() ? out + part : part;
  }
  return {channels_first(n, out)};
}

// The two neighbours of positions along an axis, the weight of the second, and whether the position
// is near the image.
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

// The attributes of RoiAlign.
struct Regions {
  explicit Regions(const NodeCall& n)
      : mode(n.text("mode", "avg")),
        samples(n.integer("sampling_ratio", 0)),
        height(n.integer("output_height", 1)),
        width(n.integer("output_width", 1)) {
    n.require(mode == "avg" || mode == "max", "the mode is '{}', not avg or max", mode);
    if (samples <= 0) {
      n.refuse(
          "its sampling_ratio is {}, so the number of samples depends on the regions. Export it "
          "with a number of samples",
          samples);
    }
    n.require(n.rank(0) == 4 && n.rank(1) == 2 && n.shape(1)[1] == 4 && samples < 1024 &&
                  height > 0 && width > 0 && height < 65536 && width < 65536,
              "the image is {} and the regions {}", n.shape(0).to_string(), n.shape(1).to_string());
    const std::string kind = n.text("coordinate_transformation_mode",
                                    n.opset() < 16 ? "output_half_pixel" : "half_pixel");
    offset = kind == "half_pixel" ? 0.5 : 0;
  }

  // Positions [regions, cells * samples] along an axis with these columns of the corners.
  Tensor positions(const NodeCall& n, int64_t low, int64_t high, int64_t cells) const {
    const int64_t count = n.shape(1)[0];
    const double scale = n.real("spatial_scale", 1);
    const auto corner = [&](int64_t i) {
      return slice(n.x(1), {0, i}, {count, i + 1}) * scale - offset;
    };
    const Tensor begin = corner(low);
    Tensor size = corner(high) - begin;
    if (offset == 0) size = maximum(size, 1.0);
    const Tensor at =
        (as_dtype(numbered(cells * samples), n.dtype(0)) + 0.5) / static_cast<double>(samples);
    return begin + size / static_cast<double>(cells) * reshape(at, {1, cells * samples});
  }

  std::string mode;
  int64_t samples, height, width;
  double offset = 0;
};

// Regions of images as results of one size: the mean or the largest of samples in each cell.
Results roi_align(const NodeCall& n) {
  const Regions regions(n);
  const int64_t count = n.shape(1)[0], channels = n.shape(0)[1];
  const Neighbours rows(regions.positions(n, 1, 3, regions.height), n.shape(0)[2]);
  const Neighbours columns(regions.positions(n, 0, 2, regions.width), n.shape(0)[3]);
  const Tensor batch = reshape(as_dtype(n.x(2), kInt64), {count, 1, 1});
  const Tensor pixels = channels_last(n, n.x(0));
  const auto pick = [&](const Tensor& r, const Tensor& c, const Tensor& weight) {
    const std::vector<Tensor> at = broadcast_arrays({batch, expand_dims(r, 2), expand_dims(c, 1)});
    return gather_nd(pixels, stack(at, {.axis = -1})) * expand_dims(weight, -1);
  };
  const Tensor wy = expand_dims(rows.weight, 2), wx = expand_dims(columns.weight, 1);
  const Tensor parts[] = {pick(rows.low, columns.low, (1.0 - wy) * (1.0 - wx)),
                          pick(rows.low, columns.high, (1.0 - wy) * wx),
                          pick(rows.high, columns.low, wy * (1.0 - wx)),
                          pick(rows.high, columns.high, wy * wx)};
  const Tensor is_near =
      expand_dims(logical_and(expand_dims(rows.is_near, 2), expand_dims(columns.is_near, 1)), -1);
  const Sizes cells = {count,         regions.height,  regions.samples,
                       regions.width, regions.samples, channels};
  const auto by_cell = [&](const Tensor& v) {
    return reshape(where(is_near, v, zeros_like(v)), cells);
  };
  const Tensor out =
      regions.mode == "avg"
          ? mean(by_cell(parts[0] + parts[1] + parts[2] + parts[3]), {.axis = {2, 4}})
          : max(by_cell(maximum(maximum(parts[0], parts[1]), maximum(parts[2], parts[3]))),
                {.axis = {2, 4}});
  return {permute_dims(out, {0, 3, 1, 2})};
}

// Adds up windows at their places in an image. Windows are the columns of the operand.
Results columns_to_image(const NodeCall& n) {
  const Sizes image = n.ints(1), block = n.ints(2);
  const std::size_t axes = image.size();
  n.require(n.rank(0) == 3 && axes > 0 && axes <= 8 && block.size() == axes,
            "the operand has {} axes, the image {} and the block {}", n.rank(0), axes,
            block.size());
  const Sizes strides = numbers_of(n, "strides", axes, 1),
              pads = numbers_of(n, "pads", 2 * axes, 0);
  const Sizes dilations = numbers_of(n, "dilations", axes, 1);
  int64_t elements = 1, windows = 1;
  Sizes padded, counts;
  for (std::size_t i = 0; i < axes; ++i) {
    n.require(image[i] > 0 && block[i] > 0 && image[i] < (int64_t{1} << 31) &&
                  block[i] < (int64_t{1} << 31),
              "the image has the size {}, and the block {}", image[i], block[i]);
    padded.push_back(image[i] + pads[i] + pads[i + axes]);
    const int64_t reach = dilations[i] * (block[i] - 1) + 1;
    n.require(padded[i] >= reach, "the block is larger than the image");
    counts.push_back((padded[i] - reach) / strides[i] + 1);
    n.require(!__builtin_mul_overflow(elements, block[i], &elements) &&
                  !__builtin_mul_overflow(windows, counts[i], &windows) && elements < kMaxCount,
              "the block is too large");
  }
  const Shape shape = n.shape(0);
  n.require(shape.count() > 0 && shape[1] % elements == 0 && shape[2] == windows,
            "the operand is {}, but windows of {} elements at {} places are needed",
            shape.to_string(), elements, windows);
  // The place of each element of each window, in axes [block..., windows...].
  Tensor place = zeros(Sizes(2 * axes, 1), {.dtype = kInt64});
  int64_t stride = 1;
  for (std::size_t i = axes; i-- > 0;) {
    const auto axis = static_cast<int64_t>(i);
    const auto rank = static_cast<int>(2 * axes);
    const int64_t in_block = (CheckedInt(dilations[i]) * stride).value();
    const int64_t to_next = (CheckedInt(strides[i]) * stride).value();
    place = place + on_axis(numbered(block[i]), axis, rank) * in_block;
    place = place + on_axis(numbered(counts[i]), axis + static_cast<int64_t>(axes), rank) * to_next;
    n.require(!__builtin_mul_overflow(stride, padded[i], &stride) && stride < kMaxCount,
              "the image is too large");
  }
  const int64_t channels = shape[1] / elements;
  const Tensor updates =
      reshape(permute_dims(reshape(n.x(0), {shape[0], channels, elements, windows}), {2, 3, 0, 1}),
              {elements * windows, shape[0] * channels});
  const Tensor flat = scatter(zeros({stride, shape[0] * channels}, {.dtype = n.dtype(0)}),
                              reshape(place, {elements * windows}), updates, {.mode = "add"});
  Sizes whole = {shape[0], channels}, start = {0, 0}, stop = whole;
  for (std::size_t i = 0; i < axes; ++i) {
    whole.push_back(padded[i]);
    start.push_back(pads[i]);
    stop.push_back(pads[i] + image[i]);
  }
  return {slice(reshape(permute_dims(flat, {1, 0}), whole), start, stop)};
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
  const double least = n.has(4) ? n.real(4) : -std::numeric_limits<double>::infinity();
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
}  // namespace images

void add_image_imports(Imports& to) {
  using namespace images;
  to.insert(
      to.end(),
      {{"AffineGrid", "theta size", "align_corners", affine_grid},
       {"GridSample", "X grid", "align_corners mode padding_mode", grid_sample},
       {"RoiAlign", "X rois batch_indices",
        "coordinate_transformation_mode mode output_height output_width sampling_ratio "
        "spatial_scale",
        roi_align},
       {"Col2Im", "input image_shape block_shape", "dilations pads strides", columns_to_image},
       {"NonMaxSuppression",
        "boxes scores max_output_boxes_per_class? iou_threshold? score_threshold?",
        "center_point_box", non_max_suppression, Import::Kind::kSizes},
       {"Resize", "X roi? scales? sizes?",
        "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
        "extrapolation_value keep_aspect_ratio_policy mode nearest_mode",
        resized},
       {"Upsample", "X scales?", "mode scales", upsampled}});
}

}  // namespace etude::onnx::importing
