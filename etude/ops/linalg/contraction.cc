// SPDX-License-Identifier: Apache-2.0
// Products of vectors and of chosen axes, and distances made of them, all by matmul and sum.
#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/ops.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

// Sum over one axis that keeps the dtype.
Tensor summed(const Tensor& x, int64_t axis) {
  Tensor out = sum(x, {.axis = axis});
  return out.dtype() == x.dtype() ? out : astype(out, x.dtype());
}

void require_axes(Operands in, const char* what) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    ETUDE_REQUIRE(in[i].rank() >= 1, "operand {} is a scalar, but needs {}", i == 0 ? "'x'" : "'y'",
                  what);
  }
}

// x and y have the same size on `axis`, which both count from the end or from the front.
void require_same_size(Operands in, int64_t axis) {
  require_axes(in, "an axis to sum over");
  const int64_t x = in[0].shape()[normalize_axis(axis, in[0].rank())];
  const int64_t y = in[1].shape()[normalize_axis(axis, in[1].rank())];
  ETUDE_REQUIRE(x == y,
                "operand 'x' has shape {} and operand 'y' has shape {}: sizes {} and {} on axis {} "
                "must be equal",
                in[0].shape().to_string(), in[1].shape().to_string(), x, y, axis);
}

Values lower_vecdot(Operands in, const Attrs& attrs) {
  const int64_t axis = attrs.integer("axis");
  ETUDE_REQUIRE(axis < 0,
                "axis is {}, but must be negative: it counts from the last axis of both operands",
                axis);
  require_same_size(in, axis);
  return {summed(internal::conj(in[0]) * in[1], axis)};
}

// The axes of x and of y that are summed over.
struct Axes {
  std::vector<int64_t> x, y;
};
Axes summed_axes(Operands in, const std::vector<int64_t>& given) {
  Axes out;
  if (given.size() == 1) {
    ETUDE_REQUIRE(given[0] >= 0 && given[0] <= std::min(in[0].rank(), in[1].rank()),
                  "axes is {}, but operands of shapes {} and {} have no such number of axes",
                  given[0], in[0].shape().to_string(), in[1].shape().to_string());
    for (int64_t i = 0; i < given[0]; ++i) {
      out.x.push_back(in[0].rank() - given[0] + i);
      out.y.push_back(i);
    }
    return out;
  }
  ETUDE_REQUIRE(
      given.size() % 2 == 0,
      "axes has {} numbers, but must be one count, or the axes of x and then as many of y",
      given.size());
  const std::size_t half = given.size() / 2;
  const std::span<const int64_t> all(given);
  for (const int axis : normalize_axes(all.first(half), in[0].rank())) out.x.push_back(axis);
  for (const int axis : normalize_axes(all.last(half), in[1].rank())) out.y.push_back(axis);
  return out;
}

std::vector<int64_t> other_axes(int rank, const std::vector<int64_t>& axes) {
  std::vector<int64_t> out;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (std::ranges::count(axes, axis) == 0) out.push_back(axis);
  }
  return out;
}

Tensor as_matrix(const Tensor& x, const std::vector<int64_t>& rows,
                 const std::vector<int64_t>& columns) {
  std::vector<int64_t> order = rows;
  order.insert(order.end(), columns.begin(), columns.end());
  const auto count = [&](const std::vector<int64_t>& axes) {
    int64_t n = 1;
    for (const int64_t axis : axes) n *= x.shape()[static_cast<int>(axis)];
    return n;
  };
  const Tensor y = std::ranges::is_sorted(order) ? x : permute_dims(x, order);
  return reshape(y, {count(rows), count(columns)});
}

Tensor contract(const Tensor& x, const Tensor& y, const Axes& axes) {
  for (std::size_t i = 0; i < axes.x.size(); ++i) {
    const int64_t a = x.shape()[static_cast<int>(axes.x[i])],
                  b = y.shape()[static_cast<int>(axes.y[i])];
    ETUDE_REQUIRE(a == b,
                  "operand 'x' has shape {} and operand 'y' has shape {}: sizes {} and {} of axes "
                  "{} and {} must be "
                  "equal",
                  x.shape().to_string(), y.shape().to_string(), a, b, axes.x[i], axes.y[i]);
  }
  const std::vector<int64_t> rows = other_axes(x.rank(), axes.x),
                             columns = other_axes(y.rank(), axes.y);
  Shape shape;
  for (const int64_t axis : rows) shape.push_back(x.shape()[static_cast<int>(axis)]);
  for (const int64_t axis : columns) shape.push_back(y.shape()[static_cast<int>(axis)]);
  return reshape(matmul(as_matrix(x, rows, axes.x), as_matrix(y, axes.y, columns)), shape);
}

Values lower_dot(Operands in, const Attrs&) {
  if (in[0].rank() == 0 || in[1].rank() == 0) return {in[0] * in[1]};
  const int64_t y_axis = in[1].rank() == 1 ? 0 : in[1].rank() - 2;
  return {contract(in[0], in[1], {{in[0].rank() - 1}, {y_axis}})};
}

Values lower_outer(Operands in, const Attrs&) {
  for (std::size_t i = 0; i < 2; ++i) {
    ETUDE_REQUIRE(in[i].rank() == 1, "operand {} has shape {}, but must have one axis",
                  i == 0 ? "'x'" : "'y'", in[i].shape().to_string());
  }
  return {reshape(in[0], {in[0].size(), 1}) * in[1]};
}

// Products of norms below epsilon count as epsilon, so that zero vectors have similarity 0.
Values lower_cosine_similarity(Operands in, const Attrs& attrs) {
  const int64_t axis = attrs.integer("axis");
  const double epsilon = attrs.real("epsilon");
  require_same_size(in, axis);
  const Tensor squares = summed(in[0] * in[0], axis) * summed(in[1] * in[1], axis);
  return {summed(in[0] * in[1], axis) / sqrt(maximum(squares, epsilon * epsilon))};
}

Values lower_cosine_distance(Operands in, const Attrs& attrs) {
  return {1 - lower_cosine_similarity(in, attrs)[0]};
}

// By differences and not by products, which would lose all digits of close points.
Values lower_cdist(Operands in, const Attrs&) {
  for (std::size_t i = 0; i < 2; ++i) {
    ETUDE_REQUIRE(in[i].rank() >= 2,
                  "operand {} has shape {}, but must be [.., points, coordinates]",
                  i == 0 ? "'x'" : "'y'", in[i].shape().to_string());
  }
  require_same_size(in, -1);
  const Tensor difference = expand_dims(in[0], -2) - expand_dims(in[1], -3);
  const Tensor squares = summed(difference * difference, -1);
  // The root has no derivative at 0, where the points are equal; 0 is given there.
  const Tensor apart = squares > 0;
  return {where(apart, sqrt(where(apart, squares, 1)), 0)};
}

std::vector<AttrDef> cosine_attrs() { return {{"axis", -1}, {"epsilon", 1e-8}}; }

void define_vectors(Registry& r) {
  r.define({
      .name = "vecdot",
      .kind = Kind::kComposition,
      .doc = "Sum of conj(x) * y over one axis, counted from the last. The other axes broadcast.",
      .operands = {"x", "y"},
      .attrs = {{"axis", -1}},
      .dtypes = kNumeric,
      .lower = lower_vecdot,
      .samples = {.calls = {{{"[2,3]", "[3]"}}, {{"[3,2]", "[3,2]"}, {{"axis", int64_t{-2}}}}},
                  .ulp = 8},
      .errors = {{{"float32[2,3]", "float32[4]"}, "sizes 3 and 4 on axis -1"},
                 {{"float32[3]", "float32[]"}, "operand 'y' is a scalar"},
                 {{"float32[3]", "float32[3]"},
                  "axis is 0, but must be negative",
                  {{"axis", int64_t{0}}}}},
  });
  r.define({
      .name = "dot",
      .kind = Kind::kComposition,
      .doc =
          "Sum of products over the last axis of x and the last but one axis of y, or the only "
          "axis of y. A scalar operand multiplies the other operand. For matrices, dot is matmul.",
      .operands = {"x", "y"},
      .dtypes = kNumeric,
      .lower = lower_dot,
      .samples = {.calls = {{{"[3]", "[3]"}}, {{"[2,3]", "[4,3,2]"}}, {{"[]", "[2]"}}}, .ulp = 8},
      .errors = {{{"float32[2,3]", "float32[4,2]"}, "sizes 3 and 4 of axes 1 and 0"}},
  });
  r.define({
      .name = "outer",
      .kind = Kind::kComposition,
      .doc = "All products of the elements of x [m] and y [n]: [m, n].",
      .operands = {"x", "y"},
      .dtypes = kNumeric,
      .lower = lower_outer,
      .samples = {.calls = {{{"[2]", "[3]"}}, {{"[0]", "[3]"}}}},
      .errors = {{{"float32[2,3]", "float32[2]"},
                  "operand 'x' has shape [2,3], but must have one axis"}},
  });
}

}  // namespace

void define_contraction(Registry& r) {
  define_vectors(r);
  r.define({
      .name = "tensordot",
      .kind = Kind::kComposition,
      .doc = "Sum of products over chosen axes. axes is a count n, for the last n axes of x and "
             "the first n axes of y. Or axes lists the axes of x, then the axes of y: tensordot(x, "
             "y, {0, 1, 1, 0}).",
      .operands = {"x", "y"},
      .attrs = {{"axes", AttrKind::kInts}},
      .dtypes = kNumeric,
      .lower =
          [](Operands in, const Attrs& attrs) {
            return Values{contract(in[0], in[1], summed_axes(in, attrs.ints("axes")))};
          },
      .samples = {.calls = {{{"[2,3,4]", "[3,4,2]"}, {{"axes", std::vector<int64_t>{2}}}},
                            {{"[2,3,4]", "[4,2]"}, {{"axes", std::vector<int64_t>{0, 2, 1, 0}}}},
                            {{"[2]", "[3]"}, {{"axes", std::vector<int64_t>{0}}}}},
                  .ulp = 8},
      .errors = {{{"float32[2,3]", "float32[4,2]"},
                  "sizes 3 and 4 of axes 1 and 0",
                  {{"axes", std::vector<int64_t>{1}}}},
                 {{"float32[2,3]", "float32[4,2]"},
                  "no such number of axes",
                  {{"axes", std::vector<int64_t>{3}}}},
                 {{"float32[2,3]", "float32[4,2]"},
                  "axes has 3 numbers",
                  {{"axes", std::vector<int64_t>{0, 1, 1}}}}},
  });
  const Samples pairs = {
      .calls = {{{"[2,3]", "[2,3]"}}, {{"[3,2]", "[3,1]"}, {{"axis", int64_t{0}}}}},
      .ranges = {{0.5, 2}, {0.5, 2}},
      .ulp = 16};
  r.define({
      .name = "cosine_similarity",
      .kind = Kind::kComposition,
      .doc =
          "Cosine of the angle between x and y along one axis. The result is 0 where x or y is 0.",
      .operands = {"x", "y"},
      .attrs = cosine_attrs(),
      .dtypes = kFloating,
      .lower = lower_cosine_similarity,
      .samples = pairs,
      .errors = {{{"float32[2,3]", "float32[2,4]"}, "sizes 3 and 4 on axis -1"}},
  });
  r.define({
      .name = "cosine_distance",
      .kind = Kind::kComposition,
      .doc = "1 - cosine_similarity(x, y).",
      .operands = {"x", "y"},
      .attrs = cosine_attrs(),
      .dtypes = kFloating,
      .lower = lower_cosine_distance,
      .samples = pairs,
      .errors = {{{"float32[2,3]", "float32[2,4]"}, "sizes 3 and 4 on axis -1"}},
  });
  r.define({
      .name = "cdist",
      .kind = Kind::kComposition,
      .doc = "Euclidean distances between the points x [.., m, d] and y [.., n, d]: [.., m, n]. "
             "The gradient is 0 where points are equal.",
      .operands = {"x", "y"},
      .dtypes = kFloating,
      .lower = lower_cdist,
      .samples = {.calls = {{{"[2,3]", "[4,3]"}}, {{"[2,2,3]", "[1,3]"}}},
                  .ranges = {{-2, -0.5}, {0.5, 2}},
                  .ulp = 16},
      .errors = {{{"float32[2,3]", "float32[2,4]"}, "sizes 3 and 4 on axis -1"},
                 {{"float32[3]", "float32[2,3]"}, "operand 'x' has shape [3]"}},
  });
}

}  // namespace etude::ops
