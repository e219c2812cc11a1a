// SPDX-License-Identifier: Apache-2.0
// The operators of terms.
#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/op/op.h"
#include "etude/stablehlo/module.h"

namespace etude::stablehlo::internal {
namespace {

const Type* with_shape(const Term& x, const Shape& shape) { return intern_type(x.dtype(), shape); }

Shape without(const Shape& shape, const Sizes& axes) {
  Shape out;
  for (const int64_t axis : other_axes(axes, shape.rank())) {
    out.push_back(shape[static_cast<int>(axis)]);
  }
  return out;
}

// a and b with one shape.
std::pair<Term, Term> aligned(const Term& a, const Term& b) {
  const Shape shape = etude::broadcast(a.shape(), b.shape());
  return {broadcast(a, shape), broadcast(b, shape)};
}

Term binary(std::string_view op, const Term& a, const Term& b) {
  const auto [x, y] = aligned(a, b);
  return apply(op, {x, y}, x.type);
}

}  // namespace

Term apply(std::string_view op, const Terms& operands, const Type* result) {
  const bool is_same =
      std::ranges::all_of(operands, [&](const Term& x) { return x.type == result; });
  const std::string types =
      is_same ? type_text(result) : fmt::format("{} -> {}", type_list(operands), type_text(result));
  const std::string dialect = op.find('.') == std::string_view::npos ? "stablehlo." : "";
  return operands[0].writer->add(
      fmt::format("{}{} {} : {}", dialect, op, name_list(operands), types), result);
}

Term apply(std::string_view op, const Term& x) { return apply(op, {x}, x.type); }

Term convert(const Term& x, DType dtype) {
  if (x.is_absent() || x.dtype() == dtype) return x;
  return apply("convert", {x}, intern_type(dtype, x.shape()));
}

Term reshape(const Term& x, const Shape& shape) {
  return x.shape() == shape ? x : apply("reshape", {x}, with_shape(x, shape));
}

Term transpose(const Term& x, const Sizes& axes) {
  if (axes == all_axes(x.rank())) return x;
  Shape shape;
  for (const int64_t axis : axes) shape.push_back(x.shape()[static_cast<int>(axis)]);
  const Type* type = with_shape(x, shape);
  return x.writer->add(fmt::format("stablehlo.transpose {}, dims = [{}] : ({}) -> {}", x.name,
                                   number_list(axes), type_text(x.type), type_text(type)),
                       type);
}

Term broadcast(const Term& x, const Shape& shape, const Sizes& axes) {
  const Type* type = with_shape(x, shape);
  return x.writer->add(fmt::format("stablehlo.broadcast_in_dim {}, dims = [{}] : ({}) -> {}",
                                   x.name, number_list(axes), type_text(x.type), type_text(type)),
                       type);
}

Term broadcast(const Term& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Sizes axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(shape.rank() - x.rank() + i);
  return broadcast(x, shape, axes);
}

Term slice(const Term& x, const Sizes& starts, const Sizes& stops, const Sizes& steps) {
  std::vector<std::string> ranges;
  Shape shape;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    ranges.push_back(steps[i] == 1 ? fmt::format("{}:{}", starts[i], stops[i])
                                   : fmt::format("{}:{}:{}", starts[i], stops[i], steps[i]));
    shape.push_back((stops[i] - starts[i] + steps[i] - 1) / steps[i]);
  }
  if (shape == x.shape()) return x;
  const Type* type = with_shape(x, shape);
  return x.writer->add(fmt::format("stablehlo.slice {} [{}] : ({}) -> {}", x.name,
                                   fmt::join(ranges, ", "), type_text(x.type), type_text(type)),
                       type);
}

Term reverse(const Term& x, const Sizes& axes) {
  if (axes.empty()) return x;
  return x.writer->add(fmt::format("stablehlo.reverse {}, dims = [{}] : {}", x.name,
                                   number_list(axes), type_text(x.type)),
                       x.type);
}

Term pad(const Term& x, const Term& value, const Sizes& low, const Sizes& high,
         const Sizes& interior) {
  Shape shape;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    const int64_t size = x.shape()[axis];
    shape.push_back(low[i] + size + std::max<int64_t>(size - 1, 0) * interior[i] + high[i]);
  }
  const bool is_same = std::ranges::all_of(low, [](int64_t n) { return n == 0; }) &&
                       std::ranges::all_of(interior, [](int64_t n) { return n == 0; });
  if (is_same && shape == x.shape()) return x;
  const Type* type = with_shape(x, shape);
  return x.writer->add(
      fmt::format("stablehlo.pad {}, {}, low = [{}], high = [{}], interior = [{}] : {} -> {}",
                  x.name, value.name, number_list(low), number_list(high), number_list(interior),
                  type_list({x, value}), type_text(type)),
      type);
}

Term concatenate(const Terms& parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  Shape shape = parts[0].shape();
  int64_t size = 0;
  for (const Term& part : parts) size += part.shape()[static_cast<int>(axis)];
  shape.set(static_cast<int>(axis), size);
  const Type* type = with_shape(parts[0], shape);
  return parts[0].writer->add(
      fmt::format("stablehlo.concatenate {}, dim = {} : {} -> {}", name_list(parts), axis,
                  type_list(parts), type_text(type)),
      type);
}

Term counted(Writer& writer, const Shape& shape, int axis, DType dtype) {
  const Type* type = intern_type(dtype, shape);
  return writer.add(fmt::format("stablehlo.iota dim = {} : {}", axis, type_text(type)), type);
}

Term filled(Writer& writer, double value, DType dtype, const Shape& shape) {
  return broadcast(writer.number(value, dtype), shape);
}

Term reduce(const Term& x, std::string_view op, const Term& init, const Sizes& axes) {
  if (axes.empty()) return x;
  const Type* type = with_shape(x, without(x.shape(), axes));
  return x.writer->add(
      fmt::format("stablehlo.reduce({} init: {}) applies stablehlo.{} across dimensions = [{}] : "
                  "{} -> {}",
                  x.name, init.name, op, number_list(axes), type_list({x, init}), type_text(type)),
      type);
}

Term reduce_keeping(const Term& x, std::string_view op, const Term& init, const Sizes& axes) {
  Shape shape = x.shape();
  for (const int64_t axis : axes) shape.set(static_cast<int>(axis), 1);
  return reshape(reduce(x, op, init, axes), shape);
}

Term sum(const Term& x, const Sizes& axes) {
  return reduce(x, "add", x.writer->number(0, x.dtype()), axes);
}
Term sum_keeping(const Term& x, const Sizes& axes) {
  return reduce_keeping(x, "add", x.writer->number(0, x.dtype()), axes);
}
Term max_keeping(const Term& x, const Sizes& axes) {
  return reduce_keeping(x, "maximum", lowest(*x.writer, x.dtype()), axes);
}

Term reduce_windows(const Term& x, std::string_view op, const Term& init, const Windows& windows) {
  Shape shape;
  std::vector<std::string> padding;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    const int64_t room = x.shape()[axis] + windows.low[i] + windows.high[i] - windows.window[i];
    shape.push_back(room < 0 ? 0 : room / windows.strides[i] + 1);
    padding.push_back(fmt::format("[{}, {}]", windows.low[i], windows.high[i]));
  }
  const std::string body = x.writer->region({init.type, init.type}, [&](const Terms& in) {
    return Terms{apply(op, {in[0], in[1]}, init.type)};
  });
  const Type* type = with_shape(x, shape);
  return x.writer->add(
      fmt::format("\"stablehlo.reduce_window\"({}) <{{window_dimensions = array<i64: {}>, "
                  "window_strides = array<i64: {}>, padding = dense<[{}]> : tensor<{}x2xi64>}}> "
                  "({}) : {} -> {}",
                  name_list({x, init}), number_list(windows.window), number_list(windows.strides),
                  fmt::join(padding, ", "), x.rank(), body, type_list({x, init}), type_text(type)),
      type);
}

Term dot(const Term& x, const Term& y, const DotAxes& axes) {
  Shape shape;
  for (const int64_t axis : axes.x_batch) shape.push_back(x.shape()[static_cast<int>(axis)]);
  const auto add_free = [&](const Term& t, Sizes used, const Sizes& contracted) {
    used.insert(used.end(), contracted.begin(), contracted.end());
    for (const int64_t axis : other_axes(used, t.rank())) {
      shape.push_back(t.shape()[static_cast<int>(axis)]);
    }
  };
  add_free(x, axes.x_batch, axes.x_contracted);
  add_free(y, axes.y_batch, axes.y_contracted);
  const Type* type = with_shape(x, shape);
  const std::string batch = axes.x_batch.empty()
                                ? ""
                                : fmt::format("batching_dims = [{}] x [{}], ",
                                              number_list(axes.x_batch), number_list(axes.y_batch));
  return x.writer->add(
      fmt::format("stablehlo.dot_general {}, {}, {}contracting_dims = [{}] x [{}] : {} -> {}",
                  x.name, y.name, batch, number_list(axes.x_contracted),
                  number_list(axes.y_contracted), type_list({x, y}), type_text(type)),
      type);
}

Term operator+(const Term& a, const Term& b) { return binary("add", a, b); }
Term operator-(const Term& a, const Term& b) { return binary("subtract", a, b); }
Term operator*(const Term& a, const Term& b) { return binary("multiply", a, b); }
Term operator/(const Term& a, const Term& b) { return binary("divide", a, b); }
Term operator+(const Term& a, double b) { return a + a.writer->number(b, a.dtype()); }
Term operator-(const Term& a, double b) { return a - a.writer->number(b, a.dtype()); }
Term operator*(const Term& a, double b) { return a * a.writer->number(b, a.dtype()); }
Term operator/(const Term& a, double b) { return a / a.writer->number(b, a.dtype()); }
Term operator-(double a, const Term& b) { return b.writer->number(a, b.dtype()) - b; }
Term operator/(double a, const Term& b) { return b.writer->number(a, b.dtype()) / b; }
Term operator-(const Term& a) { return apply("negate", a); }
Term operator<(const Term& a, const Term& b) { return compare("LT", a, b); }
Term operator<(const Term& a, double b) { return a < a.writer->number(b, a.dtype()); }
Term operator>(const Term& a, const Term& b) { return compare("GT", a, b); }
Term operator>(const Term& a, double b) { return a > a.writer->number(b, a.dtype()); }
Term operator==(const Term& a, const Term& b) { return compare("EQ", a, b); }
Term operator==(const Term& a, double b) { return a == a.writer->number(b, a.dtype()); }
Term operator&(const Term& a, const Term& b) { return binary("and", a, b); }
Term operator|(const Term& a, const Term& b) { return binary("or", a, b); }
Term operator!(const Term& a) { return apply("not", a); }
Term maximum(const Term& a, const Term& b) { return binary("maximum", a, b); }
Term minimum(const Term& a, const Term& b) { return binary("minimum", a, b); }
Term power(const Term& a, const Term& b) { return binary("power", a, b); }

Term compare(std::string_view direction, const Term& a, const Term& b) {
  const auto [x, y] = aligned(a, b);
  const bool is_float = is_floating(x.dtype()) || is_complex(x.dtype());
  const bool is_unsigned = x.dtype() == kBool || kUnsignedIntegers.contains(x.dtype());
  const Type* type = intern_type(kBool, x.shape());
  return x.writer->add(
      fmt::format("stablehlo.compare {}, {}, {} : {} -> {}", direction, name_list({x, y}),
                  is_float      ? "FLOAT"
                  : is_unsigned ? "UNSIGNED"
                                : "SIGNED",
                  type_list({x, y}), type_text(type)),
      type);
}

Term where(const Term& condition, const Term& a, const Term& b) {
  const Shape shape = etude::broadcast(condition.shape(), etude::broadcast(a.shape(), b.shape()));
  const Term c = broadcast(condition, shape), x = broadcast(a, shape), y = broadcast(b, shape);
  return x.writer->add(fmt::format("stablehlo.select {} : {}, {}", name_list({c, x, y}),
                                   type_text(c.type), type_text(x.type)),
                       x.type);
}

}  // namespace etude::stablehlo::internal
