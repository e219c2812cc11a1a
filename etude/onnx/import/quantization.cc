// SPDX-License-Identifier: Apache-2.0
// Integers that represent floats, by a scale and a zero point.
#include <vector>

#include "etude/core/dtype_functions.h"
#include "etude/onnx/import/importer.h"
#include "etude/onnx/import/windows.h"
#include "etude/ops.h"

namespace etude::onnx::importing {
namespace quantization {
namespace {

using Results = std::vector<Tensor>;

// Scales and zero points of an operand: one for all, one for each slice along an axis, or one for
// each block of slices.
Tensor spread(const NodeCall& n, const Tensor& given) {
  const Shape shape = given.type()->shape();
  if (shape.count() == 1) return reshape(given, Sizes{});
  const int64_t axis = n.axis(n.integer("axis", 1), n.rank(0));
  const int64_t block = n.integer("block_size", 0), size = n.shape(0)[static_cast<int>(axis)];
  if (block > 0) {
    n.require(shape.rank() == n.rank(0) && block < kMaxCount, "the scales are {} for blocks of {}",
              shape.to_string(), block);
    Sizes start(static_cast<std::size_t>(shape.rank()), 0), stop = n.shape(0).to_vector();
    return slice(repeat(given, block, {.axis = {axis}}), start, stop);
  }
  n.require(shape.rank() == 1 && shape[0] == size, "the scales are {} for an axis of size {}",
            shape.to_string(), size);
  return on_axis(given, axis, n.rank(0));
}

// The nearest integers of a dtype.
Tensor saturated(const Tensor& x, DType dtype) {
  const IInfo range = iinfo(dtype);
  const auto low = static_cast<double>(range.min), high = static_cast<double>(range.max);
  return astype(clip(x, {.min = low, .max = high}), dtype);
}
void require_narrow(const NodeCall& n, DType dtype) {
  if (dtype != kInt8 && dtype != kUInt8 && dtype != kInt16 && dtype != kUInt16) {
    n.refuse("its result is {}, but integers of 8 and 16 bits are imported", name(dtype));
  }
}

Results quantized(const NodeCall& n) {
  const DType given = n.dtype("output_dtype", kUInt8);
  const DType dtype = n.has(2) ? n.dtype(2) : given;
  require_narrow(n, dtype);
  const DType wide = n.dtype("precision", is_floating(n.dtype(0)) ? n.dtype(0) : kFloat32);
  const Tensor scaled = as_dtype(n.x(0), wide) / as_dtype(spread(n, n.x(1)), wide);
  Tensor out = as_dtype(round(scaled), kFloat32);
  if (n.has(2)) out = out + astype(spread(n, n.x(2)), kFloat32);
  return {saturated(out, dtype)};
}

Results dequantized(const NodeCall& n) {
  Tensor x = as_dtype(n.x(0), kFloat32);
  if (n.dtype(0) == kInt32) x = astype(n.x(0), kFloat64);
  if (n.has(2)) x = x - as_dtype(spread(n, n.x(2)), x.dtype());
  const Tensor scale = spread(n, n.x(1));
  const DType dtype = n.dtype("output_dtype", scale.dtype());
  return {as_dtype(as_dtype(x, kFloat32) * as_dtype(scale, kFloat32), dtype)};
}

Results dynamically_quantized(const NodeCall& n) {
  const Tensor& x = n.x(0);
  const Tensor high = maximum(max(x), 0.0), low = minimum(min(x), 0.0);
  const Tensor range = high - low;
  const Tensor scale = where(range == 0, ones_like(range), range) / 255.0;
  const Tensor zero = round(clip(-low / scale, {.min = 0.0, .max = 255.0}));
  return {saturated(round(x / scale) + zero, kUInt8), scale, astype(zero, kUInt8)};
}

// An operand less its zero point: a number, or one for each row or column.
Tensor less_zero(const NodeCall& n, std::size_t x, std::size_t zero, bool is_row) {
  const Tensor wide = astype(n.x(x), kInt32);
  if (!n.has(zero)) return wide;
  Tensor from = astype(n.x(zero), kInt32);
  if (n.rank(zero) == 1 && n.shape(zero)[0] > 1 && is_row) from = expand_dims(from, 1);
  return wide - from;
}
Results integer_product(const NodeCall& n) {
  return {matmul(less_zero(n, 0, 2, true), less_zero(n, 1, 3, false))};
}

Results quantized_product(const NodeCall& n) {
  const Tensor c = astype(matmul(less_zero(n, 0, 2, true), less_zero(n, 3, 5, false)), kFloat32);
  const auto scale = [&](std::size_t i, bool is_row) {
    const Tensor x = as_dtype(n.x(i), kFloat32);
    return is_row && n.rank(i) == 1 && n.shape(i)[0] > 1 ? expand_dims(x, 1) : x;
  };
  const Tensor out = c * (scale(1, true) * scale(4, false) / scale(6, true));
  const DType dtype = n.dtype(7);
  require_narrow(n, dtype);
  return {saturated(round(out) + astype(n.x(7), kFloat32), dtype)};
}

// A zero point of filters is a number, or one for each output.
Tensor filter_less_zero(const NodeCall& n, std::size_t w, std::size_t zero) {
  const Tensor wide = astype(n.x(w), kInt32);
  if (!n.has(zero)) return wide;
  const Tensor from = astype(n.x(zero), kInt32);
  if (n.shape(zero).count() == 1) return wide - reshape(from, Sizes{});
  return wide - on_axis(from, 0, n.rank(w));
}
Results integer_convolution(const NodeCall& n) {
  return {convolved(n, less_zero(n, 0, 2, false), filter_less_zero(n, 1, 3), {})};
}
Results quantized_convolution(const NodeCall& n) {
  const Tensor bias = n.has(8) ? astype(n.x(8), kInt32) : Tensor();
  const Tensor sums = convolved(n, less_zero(n, 0, 2, false), filter_less_zero(n, 3, 5), bias);
  Tensor scale = n.x(1) * n.x(4) / n.x(6);
  scale = scale.type()->count() > 1 ? on_axis(scale, 1, n.rank(0)) : reshape(scale, Sizes{});
  const DType dtype = n.dtype(7);
  require_narrow(n, dtype);
  const Tensor zero = reshape(astype(n.x(7), kFloat32), Sizes{});
  return {saturated(round(astype(sums, kFloat32) * scale) + zero, dtype)};
}

}  // namespace
}  // namespace quantization

void add_quantization_imports(Imports& to) {
  using namespace quantization;
  constexpr std::string_view kConv = "auto_pad dilations group kernel_shape pads strides";
  to.insert(
      to.end(),
      {{"QuantizeLinear", "x y_scale y_zero_point?",
        "axis block_size output_dtype precision saturate", quantized},
       {"DequantizeLinear", "x x_scale x_zero_point?", "axis block_size output_dtype", dequantized},
       {"DynamicQuantizeLinear", "x", "", dynamically_quantized},
       {"MatMulInteger", "A B a_zero_point? b_zero_point?", "", integer_product},
       {"QLinearMatMul", "a a_scale a_zero_point b b_scale b_zero_point y_scale y_zero_point", "",
        quantized_product},
       {"ConvInteger", "x w x_zero_point? w_zero_point?", kConv, integer_convolution},
       {"QLinearConv", "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B?",
        kConv, quantized_convolution}});
}

}  // namespace etude::onnx::importing
