// SPDX-License-Identifier: Apache-2.0
// Index expressions of Tensor::at by NumPy's rules, turned into slices, views and regions.
#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/call/run.h"
#include "etude/core/context/context.h"
#include "etude/core/context/placement.h"
#include "etude/core/copies.h"
#include "etude/core/index.h"
#include "etude/core/internal/call.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/op/promotion.h"
#include "etude/ops.h"
#include "etude/ops/index/index_plan.h"
#include "etude/ops/index/masked_write.h"
#include "etude/ops/records.h"

namespace etude {
namespace {

using ops::at;
using Ints = std::vector<int64_t>;

// An expression with its ellipsis written out, applied to a shape.
struct Parsed {
  ops::IndexRegion region;
  std::vector<Tensor> arrays;
  // For each axis of the region after the slices, without the points: whether the result keeps it
  // (0), drops it (1); and new axes of the result (2).
  enum class Part : uint8_t { kKept, kDropped, kNew, kPoints };
  std::vector<Part> parts;  // in the order of the expression; points appear once

  // Whether it is all of x, whatever the sizes of axes that are not 1: a graph of one size serves
  // others.
  bool is_whole(const Shape& x) const {
    for (int axis = 0; axis < x.rank(); ++axis) {
      const int64_t start = region.starts[at(axis)], stop = region.stops[at(axis)],
                    step = region.steps[at(axis)];
      const bool is_all = start == 0 && stop == ops::kBehindLast && step == 1;
      if (!is_all && (step != 0 || x[axis] != 1)) return false;
    }
    return arrays.empty();
  }
};

class Parser {
 public:
  Parser(const Shape& shape, const Index& index) : shape_(shape), index_(index) {
    out_.region = ops::IndexRegion::whole(shape.rank());
  }

  Parsed parse() {
    const int consumed = count_axes();
    bool has_ellipsis = false;
    for (const IndexItem& item : index_) {
      if (std::holds_alternative<Ellipsis>(item.value())) {
        ETUDE_REQUIRE(!has_ellipsis, "there are two ellipses. Only one can be filled");
        has_ellipsis = true;
        keep(shape_.rank() - consumed);
      } else {
        std::visit([&](const auto& value) { add(value); }, item.value());
      }
    }
    keep(shape_.rank() - axis_);
    place_points();
    return std::move(out_);
  }

 private:
  using Part = Parsed::Part;

  int count_axes() const {
    int consumed = 0;
    for (const IndexItem& item : index_) {
      if (const Tensor* t = std::get_if<Tensor>(&item.value())) {
        consumed += t->dtype() == kBool ? t->rank() : 1;
      } else {
        const bool takes = !std::holds_alternative<NewAxis>(item.value()) &&
                           !std::holds_alternative<Ellipsis>(item.value());
        consumed += takes ? 1 : 0;
      }
    }
    ETUDE_REQUIRE_CODE(kOutOfRange, consumed <= shape_.rank(),
                       "the index has {} items that take an axis, but the shape is {}", consumed,
                       shape_.to_string());
    return consumed;
  }

  void keep(int count) {
    for (int i = 0; i < count; ++i, ++axis_) out_.parts.push_back(Part::kKept);
  }

  void add(int64_t index) {
    out_.region.starts[at(axis_)] = out_.region.stops[at(axis_)] = index;
    out_.region.steps[at(axis_)] = 0;
    out_.parts.push_back(Part::kDropped);
    ++axis_;
  }

  void add(const Slice& s) {
    const std::size_t a = at(axis_);
    ops::require_step(s.step, a);
    out_.region.starts[a] = s.start.value_or(s.step > 0 ? 0 : ops::kBehindLast);
    out_.region.stops[a] = s.stop.value_or(s.step > 0 ? ops::kBehindLast : ops::kBeforeFirst);
    out_.region.steps[a] = s.step;
    keep(1);
  }

  void add(NewAxis) { out_.parts.push_back(Part::kNew); }
  void add(Ellipsis) {}

  void add(const Tensor& t) {
    if (t.dtype() == kBool) return add_mask(t);
    ETUDE_REQUIRE(is_integer(t.dtype()),
                  "an index array is {}, but must be of integers or bool. Cast it with astype",
                  name(t.dtype()));
    add_array(t);
  }

  void add_array(const Tensor& t) {
    out_.region.axes.push_back(axis_++);
    out_.arrays.push_back(t);
    out_.parts.push_back(Part::kPoints);
  }

  void add_mask(const Tensor& mask) {
    ETUDE_REQUIRE(mask.rank() > 0,
                  "a mask without axes chooses nothing or all. Use where, or a mask of shape {}",
                  shape_.to_string());
    ops::require_mask_sizes(mask.shape(), shape_, axis_);
    for (const Tensor& indices : nonzero(mask)) add_array(indices);
  }

  // Arrays next to each other keep their place; if other items are between them, their axes come
  // first. Integers count as arrays when there are arrays.
  void place_points() {
    std::vector<Part>& parts = out_.parts;
    if (out_.arrays.empty()) return;
    const auto indexes = [](Part p) { return p == Part::kPoints || p == Part::kDropped; };
    const auto first = std::find_if(parts.begin(), parts.end(), indexes);
    const auto last = std::find_if(parts.rbegin(), parts.rend(), indexes).base();
    const bool together = std::all_of(first, last, indexes);
    const auto where = together ? first - parts.begin() : 0;
    parts.erase(std::remove(parts.begin(), parts.end(), Part::kPoints), parts.end());
    parts.insert(parts.begin() + where, Part::kPoints);
    out_.region.at =
        std::count_if(parts.begin(), parts.begin() + where, [](Part p) { return p != Part::kNew; });
  }

  const Shape& shape_;
  const Index& index_;
  Parsed out_;
  int axis_ = 0;
};

// The shape of the result: the region's shape without dropped axes and with new axes.
Shape result_shape(const Parsed& p, const Shape& region, int points_rank) {
  Shape shape;
  int from = 0;
  for (const Parsed::Part part : p.parts) {
    if (part == Parsed::Part::kNew) shape.push_back(1);
    if (part == Parsed::Part::kKept) shape.push_back(region[from++]);
    if (part == Parsed::Part::kDropped) ++from;
    for (int i = 0; part == Parsed::Part::kPoints && i < points_rank; ++i)
      shape.push_back(region[from++]);
  }
  return shape;
}

// The shape in which `value`, which broadcasts to the result, broadcasts to the region.
Shape value_shape(const Parsed& p, const Shape& value, const Shape& result, int points_rank) {
  const int lead = result.rank() - value.rank();
  Shape shape;
  int at_result = 0;
  const auto take = [&] {
    const int axis = at_result++ - lead;
    return axis < 0 ? 1 : value[axis];
  };
  for (const Parsed::Part part : p.parts) {
    if (part == Parsed::Part::kNew) take();
    if (part == Parsed::Part::kKept) shape.push_back(take());
    if (part == Parsed::Part::kDropped) shape.push_back(1);
    for (int i = 0; part == Parsed::Part::kPoints && i < points_rank; ++i) shape.push_back(take());
  }
  return shape;
}

// Axes of size 1 in front do not count.
Tensor without_leading_ones(const Tensor& value, int rank) {
  int drop = 0;
  while (value.rank() - drop > rank && value.shape()[drop] == 1) ++drop;
  return drop == 0 ? value : reshape(value, Shape(value.shape().sizes().subspan(at(drop))));
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  bool fits = from.rank() <= to.rank();
  for (int a = 1; fits && a <= from.rank(); ++a) {
    const int64_t size = from[from.rank() - a];
    fits = size == 1 || size == to[to.rank() - a];
  }
  return fits;
}

Shape points_of(const Parsed& p) {
  std::vector<const Type*> types;
  for (const Tensor& t : p.arrays) types.push_back(t.type());
  return ops::points_shape(types);
}

Tensor get_part(const Tensor& x, const Index& index) {
  const Parsed p = Parser(x.shape(), index).parse();
  const Shape points = points_of(p);
  const Shape region = ops::region_shape(p.region, x.shape(), points);
  const Shape result = result_shape(p, region, points.rank());
  Tensor part = x;
  if (!p.arrays.empty()) {
    OperandList list({&x});
    for (const Tensor& t : p.arrays) list.add(t);
    part = internal::run(internal::op<"index_get">(), list, p.region.values());
  } else if (!p.is_whole(x.shape())) {
    part = internal::run(internal::op<"strided_slice">(), {&x},
                         {p.region.starts, p.region.stops, p.region.steps});
  }
  return part.shape() == result ? part : reshape(part, result);
}

// One array, nothing else but whole axes: take, whose gradient along axis 0 is sparse.
const Tensor* single_array(const Index& index, int64_t& axis) {
  const Tensor* found = nullptr;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const auto& value = index[i].value();
    const Slice* s = std::get_if<Slice>(&value);
    const bool is_all = s != nullptr && !s->start && !s->stop && s->step == 1;
    if (is_all) continue;
    const Tensor* t = std::get_if<Tensor>(&value);
    if (t == nullptr || found != nullptr || !is_integer(t->dtype())) return nullptr;
    found = t;
    axis = static_cast<int64_t>(i);
  }
  return found;
}

constexpr std::string_view mode_name(ScatterMode mode) {
  return mode == ScatterMode::kSet ? "set" : mode == ScatterMode::kAdd ? "add" : "mul";
}

void require_dtype(const Tensor& x, const Tensor& value) {
  ETUDE_REQUIRE(value.dtype() == x.dtype(),
                "the value is {}, but the indexed tensor is {} and keeps its dtype. Cast the "
                "value: astype(v, {})",
                name(value.dtype()), name(x.dtype()), name(x.dtype()));
}

// Indices are checked before x is given away, so that a bad one leaves x as it was.
void require_inside(const Parsed& p, const Shape& x) {
  for (std::size_t i = 0; i < p.arrays.size(); ++i) {
    const Tensor& t = p.arrays[i];
    if (TensorAccess::is_abstract(t)) continue;
    const auto axis = static_cast<int>(p.region.axes[i]);
    const auto [least, largest] = kernels::cpu::integer_range(internal::at_home(t));
    ETUDE_REQUIRE_CODE(kOutOfRange, least >= -x[axis] && largest < x[axis],
                       "index {} is out of range for axis {} of size {}",
                       least < -x[axis] ? least : largest, axis, x[axis]);
  }
}

void set_part(Tensor& x, const Index& index, const Arg& given, ScatterMode mode, CallSite where) {
  // The updated tensor keeps its device: numbers follow it, in a scope tensors as well.
  const bool in_scope = internal::active_placement() != nullptr;
  const internal::NoDeviceScope keeps(in_scope);
  Tensor value = given.tensor() != nullptr
                     ? internal::for_target(to_dense(*given.tensor()), x.dtype(), where)
                     : internal::adapt(given, x.dtype());
  if (in_scope || given.tensor() == nullptr) value = internal::moved(value, x.device(), where);
  require_dtype(x, value);
  if (ops::write_masked(x, index, value, mode, where)) return;
  const Parsed p = Parser(x.shape(), index).parse();
  const Shape points = points_of(p);
  const Shape region = ops::region_shape(p.region, x.shape(), points);
  const Shape result = result_shape(p, region, points.rank());
  value = without_leading_ones(value, result.rank());
  ETUDE_REQUIRE(
      broadcasts_to(value.shape(), result),
      "the value has shape {}, which does not broadcast to the shape {} of the indexed part",
      given.tensor() != nullptr ? given.tensor()->shape().to_string() : "[]", result.to_string());
  const Shape fitted = value_shape(p, value.shape(), result, points.rank());
  if (fitted != value.shape()) value = reshape(value, fitted);
  require_inside(p, x.shape());
  OperandList list({&x, &value});
  std::vector<Tensor> arrays(p.arrays.begin(), p.arrays.end());
  for (Tensor& t : arrays) {
    if (in_scope) t = internal::moved(t, x.device(), where);
    list.add(t);
  }
  internal::note_if_copied(x, "an indexed write", where);
  x = internal::run(internal::op<"index_update">(), list.view(1), p.region.values(mode_name(mode)));
}

}  // namespace

Tensor get_index(const Tensor& x, const Index& index, CallSite where) {
  return internal::located("at", where, [&] {
    const Tensor dense = to_dense(x);
    int64_t axis = 0;
    const Tensor* array = single_array(index, axis);
    if (array != nullptr && static_cast<int>(index.size()) <= dense.rank())
      return take(dense, *array, {.axis = axis});
    return get_part(dense, index);
  });
}

void set_index(Tensor& x, const Index& index, const Arg& value, ScatterMode mode, CallSite where) {
  internal::located("at", where, [&] { set_part(x, index, value, mode, where); });
}

}  // namespace etude
