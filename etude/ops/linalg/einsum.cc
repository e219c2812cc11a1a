// SPDX-License-Identifier: Apache-2.0
// einsum: sums of products over named axes, as a sequence of products of two operands. Which two
// come next follows from the sizes: the pair with the fewest multiplications.
#include <algorithm>
#include <limits>
#include <map>

#include "etude/base/check.h"
#include "etude/core/context/size_decision.h"
#include "etude/core/index.h"
#include "etude/ops.h"
#include "etude/ops/families.h"
#include "etude/ops/linalg/einsum_equation.h"

namespace etude::ops {
namespace {

using Labels = std::vector<int>;
using Sizes = std::map<int, int64_t>;  // by label

// An operand whose axes have different labels.
struct Part {
  Tensor x;
  Labels labels;
};

bool holds(const Labels& labels, int label) { return std::ranges::count(labels, label) > 0; }

int64_t size_of(const Labels& labels, const Sizes& sizes) {
  int64_t out = 1;
  for (const int label : labels) out *= sizes.at(label);
  return out;
}

// The size of every label. throws: kInvalidArgument if operands disagree.
Sizes sizes_of(const EinsumEquation& equation, Operands in) {
  Sizes out;
  for (std::size_t i = 0; i < in.size(); ++i) {
    for (std::size_t axis = 0; axis < equation.operands[i].size(); ++axis) {
      const int label = equation.operands[i][axis];
      const int64_t size = in[i].shape()[static_cast<int>(axis)];
      const auto [at, is_new] = out.try_emplace(label, size);
      const bool spreads = label >= kEllipsisLabel && (size == 1 || at->second == 1);
      ETUDE_REQUIRE(is_new || at->second == size || spreads,
                    "'{}' has size {} in operand {} of shape {}, but {} in an operand before it",
                    label_name(label), size, i, in[i].shape().to_string(), at->second);
      if (at->second == 1) at->second = size;
    }
  }
  return out;
}

Tensor permuted(const Tensor& x, const std::vector<int64_t>& axes) {
  return std::ranges::is_sorted(axes) ? x : permute_dims(x, axes);
}

Tensor in_shape(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : reshape(x, shape);
}

// x with its axes in the order of `labels`, which are those it has.
Tensor ordered(const Part& part, const Labels& labels) {
  std::vector<int64_t> axes;
  for (const int label : labels)
    axes.push_back(std::ranges::find(part.labels, label) - part.labels.begin());
  return permuted(part.x, axes);
}

// Sum that keeps the dtype: products of narrow integers wrap in it.
Tensor summed(const Tensor& x, const std::vector<int64_t>& axes) {
  if (axes.empty()) return x;
  Tensor out = sum(x, {.axis = axes});
  return out.dtype() == x.dtype() ? out : astype(out, x.dtype());
}

// The elements of `part` where axes `a` and `b` have the same index, along one last axis.
void take_diagonal(Part& part, std::size_t a, std::size_t b) {
  const int label = part.labels[a];
  const int64_t n = part.x.shape()[static_cast<int>(a)];
  std::vector<int64_t> axes;
  Labels labels;
  Shape shape;
  for (std::size_t axis = 0; axis < part.labels.size(); ++axis) {
    if (axis == a || axis == b) continue;
    axes.push_back(static_cast<int64_t>(axis));
    labels.push_back(part.labels[axis]);
    shape.push_back(part.x.shape()[static_cast<int>(axis)]);
  }
  axes.push_back(static_cast<int64_t>(a));
  axes.push_back(static_cast<int64_t>(b));
  shape.push_back(n * n);
  labels.push_back(label);
  const Tensor flat = in_shape(permuted(part.x, axes), shape);
  part = {std::as_const(flat).at(kEllipsis, slice({}, {}, n + 1)), std::move(labels)};
}

void take_diagonals(Part& part) {
  for (std::size_t b = 1; b < part.labels.size(); ++b) {
    const auto first = std::ranges::find(part.labels, part.labels[b]) - part.labels.begin();
    if (static_cast<std::size_t>(first) == b) continue;
    take_diagonal(part, static_cast<std::size_t>(first), b);
    b = 0;
  }
}

// Drops axes of size 1 that broadcast.
void drop_spread_axes(Part& part, const Sizes& sizes) {
  Labels labels;
  Shape shape;
  for (std::size_t axis = 0; axis < part.labels.size(); ++axis) {
    const int64_t size = part.x.shape()[static_cast<int>(axis)];
    if (size != sizes.at(part.labels[axis])) continue;
    labels.push_back(part.labels[axis]);
    shape.push_back(size);
  }
  part = {in_shape(part.x, shape), std::move(labels)};
}

// Sums over the axes that no other operand has.
void sum_lone_axes(Part& part, const Labels& others) {
  std::vector<int64_t> axes;
  Labels labels;
  for (std::size_t axis = 0; axis < part.labels.size(); ++axis) {
    if (holds(others, part.labels[axis]))
      labels.push_back(part.labels[axis]);
    else
      axes.push_back(static_cast<int64_t>(axis));
  }
  part = {summed(part.x, axes), std::move(labels)};
}

// The labels of two operands by their role in the product.
struct Roles {
  Labels batch, contracted, left, right;
};
Roles roles_of(const Part& a, const Part& b, const Labels& kept) {
  Roles out;
  for (const int label : a.labels) {
    if (!holds(b.labels, label))
      out.left.push_back(label);
    else
      (holds(kept, label) ? out.batch : out.contracted).push_back(label);
  }
  for (const int label : b.labels) {
    if (!holds(a.labels, label)) out.right.push_back(label);
  }
  return out;
}

Labels joined(std::initializer_list<const Labels*> lists) {
  Labels out;
  for (const Labels* list : lists) out.insert(out.end(), list->begin(), list->end());
  return out;
}

Shape shape_of_labels(const Labels& labels, const Sizes& sizes) {
  Shape out;
  for (const int label : labels) out.push_back(sizes.at(label));
  return out;
}

// The product of two operands, summed over the labels that only they have.
Part contract(const Part& a, const Part& b, const Labels& kept, const Sizes& sizes) {
  const Roles r = roles_of(a, b, kept);
  const Labels labels = joined({&r.batch, &r.left, &r.right});
  const int64_t left = size_of(r.left, sizes), right = size_of(r.right, sizes),
                inner = size_of(r.contracted, sizes);
  const auto shape = [&](int64_t rows, int64_t columns) {
    Shape s = shape_of_labels(r.batch, sizes);
    s.push_back(rows);
    s.push_back(columns);
    return s;
  };
  const Tensor x = ordered(a, joined({&r.batch, &r.left, &r.contracted}));
  if (r.contracted.empty()) {
    const Tensor y = ordered(b, joined({&r.batch, &r.right}));
    return {in_shape(in_shape(x, shape(left, 1)) * in_shape(y, shape(1, right)),
                     shape_of_labels(labels, sizes)),
            labels};
  }
  const Tensor y = ordered(b, joined({&r.batch, &r.contracted, &r.right}));
  const Tensor z = matmul(in_shape(x, shape(left, inner)), in_shape(y, shape(inner, right)));
  return {in_shape(z, shape_of_labels(labels, sizes)), labels};
}

// The labels of the result and of the parts other than `a` and `b`.
Labels needed(const std::vector<Part>& parts, std::size_t a, std::size_t b, const Labels& result) {
  Labels out = result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i != a && i != b) out.insert(out.end(), parts[i].labels.begin(), parts[i].labels.end());
  }
  return out;
}

// Multiplications that contracting two operands takes.
double cost(const Part& a, const Part& b, const Sizes& sizes) {
  double out = 1;
  for (const int label : a.labels) out *= static_cast<double>(sizes.at(label));
  for (const int label : b.labels) {
    if (!holds(a.labels, label)) out *= static_cast<double>(sizes.at(label));
  }
  return out;
}

void contract_cheapest(std::vector<Part>& parts, const Labels& result, const Sizes& sizes) {
  std::size_t best_a = 0, best_b = 1;
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t a = 0; a < parts.size(); ++a) {
    for (std::size_t b = a + 1; b < parts.size(); ++b) {
      const double c = cost(parts[a], parts[b], sizes);
      if (c < best) best = c, best_a = a, best_b = b;
    }
  }
  parts[best_a] =
      contract(parts[best_a], parts[best_b], needed(parts, best_a, best_b, result), sizes);
  parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best_b));
}

Values lower_einsum(Operands in, const Attrs& attrs) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < in.size(); ++i) ranks.push_back(in[i].rank());
  const EinsumEquation equation = parse_einsum(attrs.text("equation"), ranks);
  const Sizes sizes = sizes_of(equation, in);
  std::vector<Part> parts;
  for (std::size_t i = 0; i < in.size(); ++i) {
    parts.push_back({in[i], equation.operands[i]});
    take_diagonals(parts[i]);
    drop_spread_axes(parts[i], sizes);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sum_lone_axes(parts[i], needed(parts, i, i, equation.result));
  }
  for (std::size_t i = 0; in.size() > 2 && i < in.size(); ++i) {
    for (const int64_t size : in[i].shape()) internal::note_decision(size);
  }
  while (parts.size() > 1) contract_cheapest(parts, equation.result, sizes);
  return {ordered(parts[0], equation.result)};
}

std::vector<std::pair<std::string_view, AttrValue>> equation(const char* text) {
  return {{"equation", std::string(text)}};
}

}  // namespace

void define_einsum(Registry& r) {
  r.define({
      .name = "einsum",
      .kind = Kind::kComposition,
      .doc = "Sums of products over named axes: einsum(\"bik,bkj->bij\", {x, y}). A letter names "
             "an axis in every operand that has the letter. Letters that the result lacks are "
             "summed over. A letter that is twice in one operand takes the diagonal. '...' means "
             "axes that broadcast. The order of the products is chosen by their cost.",
      .operands = {"xs..."},
      .attrs = {{"equation", AttrKind::kText, true}},
      .dtypes = kNumeric,
      .lower = lower_einsum,
      .samples = {.calls = {{{"[2,3]", "[3,4]"}, equation("ij,jk->ik")},
                            {{"[2,3,4]", "[2,4,2]"}, equation("bik,bkj")},
                            {{"[3,3]"}, equation("ii")},
                            {{"[2,3,3]", "[3]"}, equation("...ii,i->i...")},
                            {{"[2,3]", "[3,4]", "[4]"}, equation("ab,bc,c->a")},
                            {{"[2]", "[3]"}, equation("i,j->ji")}},
                  .ulp = 16},
      .errors = {{{"float32[2,3]", "float32[4,2]"},
                  "'j' has size 4 in operand 1 of shape [4,2], but 3",
                  equation("ij,jk->ik")},
                 {{"float32[2,3]"}, "2 terms, but there are 1 operands", equation("ij,jk->ik")},
                 {{"float32[2,3]"},
                  "operand 0 has 2 axes, but term 0 of the equation names 3",
                  equation("ijk->i")},
                 {{"float32[2,3]"},
                  "the result of the equation has 'k', which no operand has",
                  equation("ij->k")},
                 {{"float32[2,3]"}, "the result of the equation has 'i' twice", equation("ij->ii")},
                 {{"float32[2,3]"}, "the equation holds '%'", equation("i%->i")},
                 {{"float32[2,3]"}, "two ellipses", equation("......->")},
                 {{"float32[2,3]"}, "has no '...'", equation("...i->i")}},
  });
}

}  // namespace etude::ops
