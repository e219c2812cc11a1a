// SPDX-License-Identifier: Apache-2.0
// Constants, shapes, and operators that move elements.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "etude/base/internal/checked_int.h"
#include "etude/onnx/import/importer.h"
#include "etude/onnx/import/windows.h"
#include "etude/ops.h"
#include "etude/ops/linalg.h"

namespace etude::onnx::importing {
namespace shapes {
namespace {

using Results = std::vector<Tensor>;

Tensor row_of(const std::vector<double>& values) {
  return astype(Tensor(values, Shape{static_cast<int64_t>(values.size())}), kFloat32);
}

Results constant(const NodeCall& n) {
  if (n.has("value")) return {n.tensor("value")};
  if (n.has("value_int")) return {int_scalar(n.integer("value_int"))};
  if (n.has("value_ints")) return {int_tensor(n.ints("value_ints"))};
  if (n.has("value_float")) return {astype(Tensor(n.real("value_float", 0)), kFloat32)};
  if (n.has("value_floats")) return {row_of(n.reals("value_floats"))};
  n.refuse("its value is a text or a sparse tensor, which is not imported");
}

Results constant_of_shape(const NodeCall& n) {
  const Tensor value = n.has("value") ? n.tensor("value") : zeros({1});
  n.require(value.size() == 1, "the attribute 'value' has {} elements, but one is needed",
            value.size());
  return {full(n.ints(0), reshape(value, Sizes{}))};
}

Results shape(const NodeCall& n) {
  const Sizes sizes = n.shape(0).to_vector();
  const auto rank = static_cast<int64_t>(sizes.size());
  const auto place = [&](int64_t at) {
    return std::clamp(at < 0 ? at + rank : at, int64_t{0}, rank);
  };
  const int64_t begin = place(n.integer("start", 0));
  const int64_t end = std::max(begin, place(n.integer("end", rank)));
  return {int_tensor(Sizes(sizes.begin() + begin, sizes.begin() + end))};
}
Results size(const NodeCall& n) { return {int_scalar(n.shape(0).count())}; }

Results reshaped(const NodeCall& n) {
  Sizes sizes = n.has("shape") ? n.ints("shape") : n.ints(1);
  const bool allows_zero = n.integer("allowzero", 0) != 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 0 || allows_zero) continue;
    n.require(
        static_cast<int>(i) < n.rank(0),
        "size {} of the new shape is 0, which means that of the operand, but that has {} axes", i,
        n.rank(0));
    sizes[i] = n.shape(0)[static_cast<int>(i)];
  }
  const auto open = std::ranges::find(sizes, -1);
  if (open != sizes.end() && n.shape(0).count() == 0) {
    // A size of an empty operand is not determined by its elements.
    *open = 0;
  }
  return {reshape(n.x(0), sizes)};
}

// The axes are an input or, before opset 13, an attribute.
Sizes given_axes(const NodeCall& n) { return n.has(1) ? n.ints(1) : n.ints("axes", {}); }
Results squeezed(const NodeCall& n) {
  const int rank = n.rank(0);
  Sizes axes = n.axes(given_axes(n), rank);
  if (!n.has(1) && !n.has("axes")) {
    for (int i = 0; i < rank; ++i) {
      if (n.shape(0)[i] == 1) axes.push_back(i);
    }
  }
  if (axes.empty()) return {n.x(0)};
  return {squeeze(n.x(0), axes)};
}
Results unsqueezed(const NodeCall& n) {
  Sizes axes = given_axes(n);
  axes = n.axes(axes, n.rank(0) + static_cast<int>(axes.size()));
  std::ranges::sort(axes);
  if (axes.empty()) return {n.x(0)};
  return {expand_dims(n.x(0), axes)};
}

Results transposed(const NodeCall& n) {
  Sizes perm(static_cast<std::size_t>(n.rank(0)));
  std::iota(perm.rbegin(), perm.rend(), 0);
  perm = n.axes(n.ints("perm", perm), n.rank(0));
  n.require(perm.size() == static_cast<std::size_t>(n.rank(0)),
            "the attribute 'perm' lists {} axes, but the operand has {}", perm.size(), n.rank(0));
  Sizes to_last = {0}, to_first = {0, n.rank(0) - 1};
  for (int i = 2; i < n.rank(0); ++i) to_last.push_back(i);
  to_last.push_back(1);
  for (int i = 1; i + 1 < n.rank(0); ++i) to_first.push_back(i);
  if (n.rank(0) >= 3 && perm == to_last) return {channels_last(n, n.x(0))};
  if (n.rank(0) >= 3 && perm == to_first) return {channels_first(n, n.x(0))};
  return {permute_dims(n.x(0), perm)};
}

Results flattened(const NodeCall& n) {
  const int64_t given = n.integer("axis", 1), rank = n.rank(0);
  n.require(given >= -rank && given <= rank, "axis {} is outside of the {} axes of its operand",
            given, rank);
  const int64_t axis = given < 0 ? given + rank : given;
  etude::internal::CheckedInt rows = 1, columns = 1;
  for (int i = 0; i < n.rank(0); ++i) {
    auto& part = i < axis ? rows : columns;
    part = part * n.shape(0)[i];
  }
  return {reshape(n.x(0), {rows.value(), columns.value()})};
}

Results concatenated(const NodeCall& n) {
  const std::vector<Tensor> all = n.all();
  n.require(!all.empty(), "it has no input");
  const int64_t axis = n.axis(n.integer("axis", 1), n.rank(0));
  if (all.size() == 1) return {all[0]};
  std::vector<Tensor> last;
  for (const Tensor& x : all) {
    if (const Tensor* known = n.importer().channels_last(x)) last.push_back(*known);
  }
  if (axis == 1 && last.size() == all.size()) {
    return {channels_first(n, concat(last, {.axis = -1}))};
  }
  return {concat(all, {.axis = axis})};
}

Results parts(const NodeCall& n) {
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  const int64_t size = n.shape(0)[static_cast<int>(axis)];
  Sizes sizes = n.has(1) ? n.ints(1) : n.ints("split", {});
  if (sizes.empty()) {
    // Equal parts; the last one may be smaller.
    const auto count = n.integer("num_outputs", static_cast<int64_t>(n.results()));
    n.require(count > 0 && count == static_cast<int64_t>(n.results()),
              "it has {} results, but num_outputs is {}", n.results(), count);
    const int64_t each = (size + count - 1) / count;
    for (int64_t left = size, i = 0; i < count; ++i) {
      sizes.push_back(std::min(each, left));
      left -= sizes.back();
    }
  }
  n.require(sizes.size() == n.results(), "it has {} results, but {} sizes", n.results(),
            sizes.size());
  Results out;
  int64_t at = 0;
  for (const int64_t each : sizes) {
    n.require(each >= 0 && each <= size - at, "the sizes of its parts are more than the size {}",
              size);
    out.push_back(span_of(n.x(0), axis, at, at + each));
    at += each;
  }
  return out;
}

// The numbers of one axis of Slice, for the rules of ONNX: limits outside of the axis are clamped.
struct Range {
  int64_t start, stop, step;
};
Range range_of(int64_t start, int64_t stop, int64_t step, int64_t size) {
  const auto counted = [&](int64_t at) { return at < 0 ? at + size : at; };
  if (step > 0) {
    start = std::clamp(counted(start), int64_t{0}, size);
    stop = std::clamp(counted(stop), int64_t{0}, size);
    return {start, std::max(start, stop), step};
  }
  start = std::clamp(counted(start), int64_t{-1}, size - 1);
  // The smallest numbers mean "to the end".
  stop = stop < -size ? -1 : std::clamp(counted(stop), int64_t{-1}, size - 1);
  return {start, std::min(start, stop), step};
}

Results sliced(const NodeCall& n) {
  const int rank = n.rank(0);
  const bool are_inputs = n.has(1);
  const Sizes starts = are_inputs ? n.ints(1) : n.ints("starts");
  const Sizes ends = are_inputs ? n.ints(2) : n.ints("ends");
  Sizes axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = n.axes(n.has(3) ? n.ints(3) : n.ints("axes", axes), rank);
  const Sizes steps = n.has(4) ? n.ints(4) : Sizes(starts.size(), 1);
  n.require(
      starts.size() == ends.size() && starts.size() == axes.size() && starts.size() == steps.size(),
      "its starts, ends, axes and steps have {}, {}, {} and {} numbers", starts.size(), ends.size(),
      axes.size(), steps.size());
  Tensor out = n.x(0);
  Sizes start(static_cast<std::size_t>(rank), 0), stop = n.shape(0).to_vector();
  Sizes step(static_cast<std::size_t>(rank), 1), flipped;
  bool has_step = false;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    const int64_t size = stop[axis];
    n.require(steps[i] != 0, "the step of axis {} is 0", axis);
    Range range = range_of(starts[i], ends[i], steps[i], size);
    if (range.step < 0) {  // of the axis in the other order
      flipped.push_back(axes[i]);
      const int64_t by = range.step == INT64_MIN ? INT64_MAX : -range.step;
      range = {size - 1 - range.start, size - 1 - range.stop, by};
    }
    start[axis] = range.start;
    stop[axis] = range.stop;
    step[axis] = range.step;
    has_step = has_step || range.step != 1;
  }
  if (!flipped.empty()) out = flip(out, {.axis = flipped});
  if (!has_step) return {slice(out, start, stop)};
  return {slice(out, start, stop, {.step = step})};
}

Results expanded(const NodeCall& n) {
  const Shape to = broadcast(n.shape(0), Shape(n.ints(1)));
  return {to == n.shape(0) ? n.x(0) : broadcast_to(n.x(0), to)};
}
Results tiled(const NodeCall& n) { return {tile(n.x(0), n.ints(1))}; }

// A border of constants. Negative widths remove elements, before the border is added.
Results padded(const NodeCall& n) {
  const auto rank = static_cast<std::size_t>(n.rank(0));
  const Sizes pads = n.has(1) ? n.ints(1) : n.ints("pads");
  Sizes axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (n.has(3)) axes = n.axes(n.ints(3), n.rank(0));
  n.require(pads.size() == 2 * axes.size(), "there are {} pads for {} axes", pads.size(),
            axes.size());
  Sizes widths(2 * rank, 0), start(rank, 0), stop = n.shape(0).to_vector();
  bool cuts = false, adds = false;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    const int64_t before = pads[i], after = pads[i + axes.size()];
    n.require(before > INT32_MIN && after > INT32_MIN && before < INT32_MAX && after < INT32_MAX,
              "the pads of axis {} are {} and {}", axis, before, after);
    start[axis] = std::max<int64_t>(-before, 0);
    stop[axis] -= std::max<int64_t>(-after, 0);
    n.require(start[axis] <= stop[axis], "the pads of axis {} remove more than there is", axis);
    cuts = cuts || before < 0 || after < 0;
    widths[2 * axis] = std::max<int64_t>(before, 0);
    widths[2 * axis + 1] = std::max<int64_t>(after, 0);
    adds = adds || before > 0 || after > 0;
  }
  Tensor out = cuts ? slice(n.x(0), start, stop) : n.x(0);
  if (!adds) return {out};
  const std::string mode = n.text("mode", "constant");
  n.require(mode == "constant" || mode == "reflect" || mode == "edge" || mode == "wrap",
            "the mode is '{}', not constant, reflect, edge or wrap", mode);
  const DType dtype = out.dtype();
  if (mode != "constant" || !n.has(2)) {
    const double value = n.real("value", 0);
    return {pad(out, widths, {.mode = mode, .value = value})};
  }
  if (!is_integer(dtype)) return {pad(out, widths, {.value = n.real(2)})};
  // A number of the host has less digits than int64: the border is where a mask is false.
  const Tensor inside = pad(ones_like(out, {.dtype = kBool}), widths);
  return {where(inside, pad(out, widths), reshape(astype(n.known(2), dtype), Sizes{}))};
}

Results counted(const NodeCall& n) {
  const DType dtype = n.dtype(0);
  if (is_integer(dtype)) {
    const int64_t start = n.integer(0), stop = n.integer(1), step = n.integer(2);
    n.require(step != 0, "the step is 0");
    const double count = std::ceil((static_cast<double>(stop) - static_cast<double>(start)) /
                                   static_cast<double>(step));
    n.require(count < 1e15, "it has {} numbers", count);
    const Tensor numbers = arange(0.0, {.stop = std::max(count, 0.0), .dtype = kInt64});
    return {as_dtype(numbers * step + start, dtype)};
  }
  const double start = n.real(0), stop = n.real(1), step = n.real(2);
  n.require(step != 0, "the step is 0");
  const double count = std::max(std::ceil((stop - start) / step), 0.0);
  n.require(count < 1e15, "it has {} numbers", count);
  const Tensor numbers = arange(0.0, {.stop = count, .dtype = kFloat64});
  return {as_dtype(numbers * step + start, dtype)};
}

Results eye_like(const NodeCall& n) {
  n.require(n.rank(0) == 2, "its operand has {} axes, but 2 are needed", n.rank(0));
  const int64_t k = n.integer("k", 0);
  n.require(k > INT32_MIN && k < INT32_MAX, "k is {}", k);
  return {
      eye(n.shape(0)[0], {.cols = n.shape(0)[1], .k = k, .dtype = n.dtype("dtype", n.dtype(0))})};
}

Results triangle(const NodeCall& n) {
  const int64_t k = n.has(1) ? n.integer(1) : 0;
  if (n.integer("upper", 1) != 0) return {triu(n.x(0), {.k = k})};
  return {tril(n.x(0), {.k = k})};
}

Results depth_to_space(const NodeCall& n) {
  const int64_t b = n.integer("blocksize");
  const std::string mode = n.text("mode", "DCR");
  n.require(n.rank(0) == 4 && b > 0 && b < 4096 && n.shape(0)[1] % (b * b) == 0,
            "its operand has the shape {}, and the blocks the size {}", n.shape(0).to_string(), b);
  n.require(mode == "DCR" || mode == "CRD", "the mode is '{}', not DCR or CRD", mode);
  const Shape s = n.shape(0);
  const int64_t channels = s[1] / (b * b);
  const bool is_dcr = mode == "DCR";
  const Tensor blocks =
      is_dcr
          ? permute_dims(reshape(n.x(0), {s[0], b, b, channels, s[2], s[3]}), {0, 3, 4, 1, 5, 2})
          : permute_dims(reshape(n.x(0), {s[0], channels, b, b, s[2], s[3]}), {0, 1, 4, 2, 5, 3});
  return {reshape(blocks, {s[0], channels, s[2] * b, s[3] * b})};
}
Results space_to_depth(const NodeCall& n) {
  const int64_t b = n.integer("blocksize");
  n.require(n.rank(0) == 4 && b > 0 && b < 4096 && n.shape(0)[2] % b == 0 && n.shape(0)[3] % b == 0,
            "its operand has the shape {}, and the blocks the size {}", n.shape(0).to_string(), b);
  const Shape s = n.shape(0);
  const Tensor blocks =
      permute_dims(reshape(n.x(0), {s[0], s[1], s[2] / b, b, s[3] / b, b}), {0, 3, 5, 1, 2, 4});
  return {reshape(blocks, {s[0], s[1] * b * b, s[2] / b, s[3] / b})};
}

// Cuts or pads both sides of axes; the side of the end gets an odd element.
Results center_crop_pad(const NodeCall& n) {
  const auto rank = static_cast<std::size_t>(n.rank(0));
  Sizes axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  axes = n.axes(n.ints("axes", axes), n.rank(0));
  const Sizes sizes = n.ints(1);
  n.require(sizes.size() == axes.size(), "there are {} sizes for {} axes", sizes.size(),
            axes.size());
  Sizes start(rank, 0), stop = n.shape(0).to_vector(), widths(2 * rank, 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    const int64_t size = stop[axis], wanted = sizes[i];
    n.require(wanted >= 0 && wanted < kMaxCount, "the size of axis {} is {}", axis, wanted);
    if (wanted <= size) {
      start[axis] = (size - wanted) / 2;
      stop[axis] = start[axis] + wanted;
    } else {
      widths[2 * axis] = (wanted - size) / 2;
      widths[2 * axis + 1] = wanted - size - widths[2 * axis];
    }
  }
  return {pad(slice(n.x(0), start, stop), widths)};
}

Results determinant(const NodeCall& n) { return {linalg::det(n.x(0))}; }

}  // namespace
}  // namespace shapes

void add_shape_imports(Imports& to) {
  using namespace shapes;
  constexpr auto kFacts = Import::Kind::kFacts;
  to.insert(to.end(), {{"Constant", "",
                        "value value_int value_ints value_float value_floats value_string "
                        "value_strings sparse_value",
                        constant, kFacts},
                       {"ConstantOfShape", "input", "value", constant_of_shape},
                       {"Shape", "data", "start end", shapes::shape, kFacts},
                       {"Size", "data", "", shapes::size, kFacts},
                       {"Reshape", "data shape", "shape allowzero consumed_inputs", reshaped},
                       {"Squeeze", "data axes?", "axes", squeezed},
                       {"Unsqueeze", "data axes?", "axes", unsqueezed},
                       {"Transpose", "data", "perm", transposed},
                       {"Flatten", "input", "axis", flattened},
                       {"Concat", "inputs...", "axis", concatenated},
                       {"Split", "input split?", "axis split num_outputs", shapes::parts},
                       {"Slice", "data starts? ends? axes? steps?", "starts ends axes", sliced},
                       {"Expand", "input shape", "", expanded},
                       {"Tile", "input repeats", "", tiled},
                       {"Pad", "data pads? constant_value? axes?", "mode pads value", padded},
                       {"Range", "start limit delta", "stash_type", counted},
                       {"EyeLike", "input", "dtype k", eye_like},
                       {"Trilu", "input k?", "upper", triangle},
                       {"DepthToSpace", "input", "blocksize mode", shapes::depth_to_space},
                       {"SpaceToDepth", "input", "blocksize", shapes::space_to_depth},
                       {"CenterCropPad", "input_data shape", "axes", center_crop_pad},
                       {"Det", "X", "", determinant}});
}

}  // namespace etude::onnx::importing
