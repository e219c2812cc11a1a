// SPDX-License-Identifier: Apache-2.0
// Images: sampling at computed positions, and windows that are added up.
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

}  // namespace
}  // namespace images

void add_image_imports(Imports& to) {
  using namespace images;
  to.insert(
      to.end(),
      {{"AffineGrid", "theta size", "align_corners", affine_grid},
       {"GridSample", "X grid", "align_corners mode padding_mode", grid_sample},
       {"Col2Im", "input image_shape block_shape", "dilations pads strides", columns_to_image},
       {"Resize", "X roi? scales? sizes?",
        "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
        "extrapolation_value keep_aspect_ratio_policy mode nearest_mode",
        resized},
       {"Upsample", "X scales?", "mode scales", upsampled}});
}

}  // namespace etude::onnx::importing
