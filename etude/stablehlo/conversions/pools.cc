// SPDX-License-Identifier: Apache-2.0
// Pooling over windows of images [n, sizes..., channels], and its derivatives.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/core/internal/convert.h"
#include "etude/core/internal/host_door.h"
#include "etude/ops/image/windows.h"
#include "etude/stablehlo/conversions.h"

namespace etude::stablehlo::internal {
namespace {

using ops::WindowAxis;

std::vector<WindowAxis> windows_of(const Call& call, const Shape& image) {
  const auto axes = static_cast<std::size_t>(image.rank() - 2);
  const Sizes size = ops::sizes_attr(call.attrs, "window", Sizes(axes, 1));
  return ops::resolve_windows(call.attrs, image, size,
                              ops::sizes_attr(call.attrs, "strides", size));
}

// The windows over all axes.
Windows whole_windows(const std::vector<WindowAxis>& axes) {
  Windows out{{1}, {1}, {0}, {0}};
  for (const WindowAxis& axis : axes) {
    out.window.push_back(axis.size);
    out.strides.push_back(axis.stride);
    out.low.push_back(axis.before);
    out.high.push_back((axis.output - 1) * axis.stride + axis.size - axis.input - axis.before);
  }
  for (Sizes* each : {&out.window, &out.strides}) each->push_back(1);
  for (Sizes* each : {&out.low, &out.high}) each->push_back(0);
  return out;
}
// The padding as an operator of its own. It may be negative.
Term padded(const Term& x, const Term& value, Windows& windows) {
  const std::size_t rank = windows.low.size();
  const Term out = pad(x, value, windows.low, windows.high, Sizes(rank, 0));
  windows.low.assign(rank, 0);
  windows.high.assign(rank, 0);
  return out;
}

Terms max_pool(Call& call) {
  const Term x = call.in(0), least = lowest(call.writer, x.dtype());
  Windows windows = whole_windows(windows_of(call, x.shape()));
  return {reduce_windows(padded(x, least, windows), "maximum", least, windows)};
}

// The numbers of pixels of an axis in each window.
Term counts(Writer& writer, const WindowAxis& axis, DType dtype) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < axis.output; ++i) {
    const int64_t begin = i * axis.stride - axis.before;
    numbers.push_back(
        static_cast<double>(std::min(begin + axis.size, axis.input) - std::max<int64_t>(begin, 0)));
  }
  Tensor out = etude::internal::make_tensor(intern_type(dtype, Shape{axis.output}));
  etude::internal::convert_elements(etude::internal::host_elements_for_writing(out), dtype,
                                    numbers.data(), kFloat64, axis.output);
  return writer.constant(out);
}
// x divided by the number of pixels of each window.
Term divided(const Term& x, const std::vector<WindowAxis>& axes) {
  Term out = x;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Term number = counts(*x.writer, axes[i], x.dtype());
    out = out / broadcast(number, x.shape(), {static_cast<int64_t>(i) + 1});
  }
  return out;
}

Terms avg_pool(Call& call) {
  const Term x = call.in(0), zero = call.number(0);
  const std::vector<WindowAxis> axes = windows_of(call, x.shape());
  Windows windows = whole_windows(axes);
  const Term sums = reduce_windows(padded(x, zero, windows), "add", zero, windows);
  return {divided(sums, axes)};
}

// The transpose: each pixel gets the sum over the windows that have it.
Terms avg_pool_gradient(Call& call) {
  const Term ct = call.in(0), zero = call.number(0);
  const std::vector<WindowAxis> axes = windows_of(call, call.result().shape());
  Windows windows{
      {1}, Sizes(axes.size() + 2, 1), Sizes(axes.size() + 2, 0), Sizes(axes.size() + 2, 0)};
  Sizes low = {0}, high = {0}, interior = {0};
  for (const WindowAxis& axis : axes) {
    windows.window.push_back(axis.size);
    interior.push_back(axis.stride - 1);
    low.push_back(axis.size - 1 - axis.before);
    high.push_back(axis.input - 1 - (axis.output - 1) * axis.stride + axis.before);
  }
  windows.window.push_back(1);
  for (Sizes* each : {&low, &high, &interior}) each->push_back(0);
  return {reduce_windows(pad(divided(ct, axes), zero, low, high, interior), "add", zero, windows)};
}

// Each element of ct at the first maximum of its window in x.
Terms max_pool_scatter(Call& call) {
  const Term ct = call.in(0), x = call.in(1), zero = call.number(0);
  Windows windows = whole_windows(windows_of(call, x.shape()));
  const Windows given = windows;
  const Term image = padded(x, lowest(call.writer, x.dtype()), windows);
  const Type* scalar = zero.type;
  const std::string select = call.writer.region(
      {scalar, scalar}, [&](const Terms& in) { return Terms{compare("GE", in[0], in[1])}; });
  const std::string add = call.writer.region(
      {scalar, scalar}, [&](const Terms& in) { return Terms{apply("add", in, scalar)}; });
  const Term out = call.writer.add(
      fmt::format("\"stablehlo.select_and_scatter\"({}) <{{window_dimensions = array<i64: {}>, "
                  "window_strides = array<i64: {}>}}> ({}, {}) : {} -> {}",
                  name_list({image, ct, zero}), number_list(windows.window),
                  number_list(windows.strides), select, add, type_list({image, ct, zero}),
                  type_text(image.type)),
      image.type);
  Sizes low, high;
  for (std::size_t i = 0; i < given.low.size(); ++i) {
    low.push_back(-given.low[i]);
    high.push_back(-given.high[i]);
  }
  return {pad(out, zero, low, high, Sizes(low.size(), 0))};
}

// The elements of g at the first maximum of each window of x: the windows place by place.
Terms max_pool_gather(Call& call) {
  const std::vector<WindowAxis> axes = windows_of(call, call.shape(1));
  Windows windows = whole_windows(axes), same = windows;
  const Term g = padded(call.in(0), call.number(0), windows);
  const Term x = padded(call.in(1), lowest(call.writer, call.in(1).dtype()), same);
  const Shape& result = call.result().shape();
  const auto at = [&](const Term& image, int64_t down, int64_t right) {
    const Sizes starts = {0, down, right, 0};
    Sizes stops = {result[0], 0, 0, result[3]};
    for (std::size_t i = 1; i < 3; ++i) {
      stops[i] = starts[i] + (axes[i - 1].output - 1) * axes[i - 1].stride + 1;
    }
    return slice(image, starts, stops, {1, axes[0].stride, axes[1].stride, 1});
  };
  Term best = at(x, 0, 0), out = at(g, 0, 0);
  for (int64_t place = 1; place < axes[0].size * axes[1].size; ++place) {
    const int64_t down = place / axes[1].size, right = place % axes[1].size;
    const Term next = at(x, down, right);
    const Term is_more = next > best;
    out = where(is_more, at(g, down, right), out);
    best = where(is_more, next, best);
  }
  return {out};
}

}  // namespace

void add_pool_conversions(Conversions& to) {
  for (const char* op : {"nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"}) {
    to.push_back({.op = op, .dtypes = kReal, .write = max_pool});
  }
  for (const char* op : {"nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"}) {
    to.push_back({.op = op, .dtypes = kFull, .write = avg_pool});
  }
  to.insert(
      to.end(),
      {{.op = "internal.avg_pool2d_input_gradient", .dtypes = kFull, .write = avg_pool_gradient},
       {.op = "internal.max_pool2d_scatter", .dtypes = kFull, .write = max_pool_scatter},
       {.op = "internal.max_pool2d_gather", .dtypes = kFloating, .write = max_pool_gather}});
}

}  // namespace etude::stablehlo::internal
