// SPDX-License-Identifier: Apache-2.0
// The two ops of Tensor::at with index arrays, and of scatter: reading a region of an array, and
// writing it. Expressions are turned into regions in index_expression.cc.
#include <cstring>

#include "etude/autodiff/derive.h"
#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/batching.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/index/index_batching.h"
#include "etude/ops/index/index_plan.h"
#include "etude/ops/reduce/group_products.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;
using kernels::cpu::Update;

constexpr std::string_view kModes[] = {"set", "add", "mul", "min", "max"};

Update mode_of(const Attrs& attrs) {
  const std::string& text = attrs.text("mode");
  for (std::size_t i = 0; i < std::size(kModes); ++i) {
    if (kModes[i] == text) return static_cast<Update>(i);
  }
  ETUDE_THROW(kInvalidArgument, "mode is \"{}\", but must be set, add, mul, min or max", text);
}

std::vector<AttrDef> with_region(std::vector<AttrDef> first) {
  for (AttrDef& def : region_attrs()) first.push_back(std::move(def));
  return first;
}

void require_region(const IndexRegion& region, const Shape& x, std::size_t arrays) {
  const auto rank = static_cast<std::size_t>(x.rank());
  ETUDE_REQUIRE(
      region.starts.size() == rank && region.stops.size() == rank && region.steps.size() == rank,
      "starts, stops and steps need {} entries each, one per axis of 'x'", rank);
  ETUDE_REQUIRE(region.axes.size() == arrays, "there are {} index arrays for {} axes", arrays,
                region.axes.size());
  const auto sliced = x.rank() - static_cast<int64_t>(arrays);
  ETUDE_REQUIRE(region.at >= 0 && region.at <= sliced,
                "at is {}, but must lie in [0, {}]: it numbers the axes without index arrays",
                region.at, sliced);
  int64_t before = -1;
  for (const int64_t axis : region.axes) {
    ETUDE_REQUIRE(axis > before && axis < x.rank(), "axes must ascend and lie in [0, {})",
                  x.rank());
    before = axis;
  }
}

Types get_type(const TypeCall& call) {
  const IndexRegion region = IndexRegion::of(call.attrs);
  require_region(region, call.shape(0), call.types.size() - 1);
  return {call.make(call.dtype(0),
                    region_shape(region, call.shape(0), points_shape(call.types.subspan(1))))};
}

void prepare_get(const PrepareCall& call) {
  const IndexRegion region = IndexRegion::of(call.attrs);
  kernels::cpu::prepare_gather(call, plan_walk(region, call.shape(0), call.out.results[0]->shape(),
                                               itemsize(call.dtype(0)), call.types.subspan(1)));
}

Types update_type(const TypeCall& call) {
  const IndexRegion region = IndexRegion::of(call.attrs);
  require_region(region, call.shape(0), call.types.size() - 2);
  const Update mode = mode_of(call.attrs);
  const DType dtype = call.dtype(0);
  ETUDE_REQUIRE(mode == Update::kSet || dtype != kBool,
                "mode \"{}\" needs numbers, but operand 'x' is bool", call.attrs.text("mode"));
  ETUDE_REQUIRE((mode != Update::kMin && mode != Update::kMax) || !is_complex(dtype),
                "mode \"{}\" needs an order, but operand 'x' is {}", call.attrs.text("mode"),
                name(dtype));
  const Shape shape = region_shape(region, call.shape(0), points_shape(call.types.subspan(2)));
  ETUDE_REQUIRE(broadcast(call.shape(1), shape) == shape,
                "the value has shape {}, which does not broadcast to the indexed part of shape {}",
                call.shape(1).to_string(), shape.to_string());
  return {call.types[0]};
}

Values get_batch(const BatchCall& call) {
  return {
      get_region(batching::leading(call, 0), batch_region(call, IndexRegion::of(call.attrs), 1))};
}

Values update_batch(const BatchCall& call) {
  const BatchedRegion region = batch_region(call, IndexRegion::of(call.attrs), 2);
  const Tensor value = region.value_for(call.in[1], call.is_batched(1));
  const std::string& mode = call.attrs.text("mode");
  if (!call.is_batched(0)) {
    return {update_region(batching::leading(call, 0), value, region, mode)};
  }
  return {update_region(call.in[0], value, region, mode, (call.in.expiring() & 1) != 0)};
}

void prepare_update(const PrepareCall& call) {
  const IndexRegion region = IndexRegion::of(call.attrs);
  kernels::cpu::prepare_update(call,
                               plan_walk(region, call.shape(0), call.shape(1),
                                         itemsize(call.dtype(0)), call.types.subspan(2)),
                               mode_of(call.attrs));
}

// The region of a call and its index arrays, for reads and writes of other tensors at the same
// places.
class Places {
 public:
  Places(Operands in, std::size_t first, const Attrs& attrs)
      : in_(in), first_(first), region_(IndexRegion::of(attrs)) {}

  bool may_repeat() const { return in_.size() > first_; }
  Tensor get(const Tensor& x) const {
    OperandList list({&x});
    add_arrays(list);
    return run(op<"index_get">(), list, region_.values());
  }
  // In place if x is given away and has no other owner.
  Tensor update(const Tensor& x, const Tensor& value, std::string_view mode,
                bool is_given = false) const {
    OperandList list({&x, &value});
    add_arrays(list);
    return run(op<"index_update">(), list.view(is_given ? 1 : 0), region_.values(mode));
  }
  Shape shape() const {
    std::vector<const Type*> types;
    for (std::size_t i = first_; i < in_.size(); ++i) types.push_back(in_[i].type());
    return region_shape(region_, in_[0].shape(), points_shape(types));
  }

 private:
  void add_arrays(OperandList& list) const {
    for (std::size_t i = first_; i < in_.size(); ++i) list.add(in_[i]);
  }
  Operands in_;
  std::size_t first_;
  IndexRegion region_;
};

Tensor zeros_of(const Type* type) { return internal::full(type, 0); }
Tensor scalar_like(const Tensor& x, double value) {
  return internal::full(intern_type(x.dtype(), {}), value);
}

Values get_vjp(const VjpCall& call) {
  Values out(call.in.size());
  if (!call.wants(0)) return out;
  Tensor sum = call.take_sum(0);
  if (!sum.has_value()) sum = zeros_of(call.in[0].type());
  out[0] = Places(call.in, 1, call.attrs).update(sum, call.ct(), "add", true);
  return out;
}

Values get_jvp(const JvpCall& call) {
  if (!call.tangents[0].has_value()) return Values(1);
  return {Places(call.in, 1, call.attrs).get(call.tangents[0])};
}

// 1 where a value was the last one written to its place, else 0.
Tensor last_writers(const Places& places, const Type* x) {
  const Shape shape = places.shape();
  const auto count = static_cast<double>(shape.count());
  const Tensor mine = reshape(arange(0, {.stop = count, .dtype = kInt64}), shape);
  const Tensor none_yet = internal::full(intern_type(kInt64, x->shape(), x->device()), -1);
  return equal(places.get(places.update(none_yet, mine, "set")), mine);
}

Values set_vjp(const VjpCall& call, const Places& places) {
  Values out(call.in.size());
  // The part is read first, so that the rest may be written in the place of the cotangent.
  if (call.wants(1)) {
    Tensor part = places.get(call.ct());
    if (places.may_repeat())
      part = where(last_writers(places, call.in[0].type()), part, scalar_like(part, 0));
    out[1] = internal::sum_to(part, call.in[1].shape());
  }
  if (!call.wants(0)) return out;
  const bool is_given = (call.cotangents.expiring() & 1) != 0;
  out[0] = places.update(call.ct(), scalar_like(call.ct(), 0), "set", is_given);
  return out;
}

// The number of the element of x at each place, in row-major order.
Tensor element_numbers(const Places& places, const Shape& x) {
  const auto count = static_cast<double>(x.count());
  return places.get(reshape(arange(0, {.stop = count, .dtype = kInt64}), x));
}

// y = x * product of the values v_i of a place: the derivative by v_i is x times the other values.
Values multiply_vjp(const VjpCall& call, const Places& places) {
  Values out(call.in.size());
  if (call.wants(0)) out[0] = places.update(call.ct(), internal::conj(call.in[1]), "mul");
  if (!call.wants(1)) return out;
  const Tensor &x = call.in[0], &v = call.in[1];
  Tensor others = places.get(x);
  if (places.may_repeat()) {
    const Shape shape = places.shape(), flat{shape.count()};
    const Tensor values = reshaped(broadcasted(v, shape), flat);
    const Tensor numbers = reshaped(element_numbers(places, x.shape()), flat);
    others = others * reshaped(products_of_others(values, numbers), shape);
  }
  out[1] = internal::sum_to(places.get(call.ct()) * internal::conj(others), v.shape());
  return out;
}

// Elements equal to the extreme share the cotangent equally.
Values extreme_vjp(const VjpCall& call, const Places& places) {
  Values out(call.in.size());
  const Tensor &x = call.in[0], &v = call.in[1], &y = call.out[0];
  const Tensor one = scalar_like(x, 1), zero = scalar_like(x, 0);
  const Tensor x_wins = where(equal(x, y), one, zero);
  const Tensor v_wins = where(equal(places.get(y), v), one, zero);
  const Tensor share = call.ct() / places.update(x_wins, v_wins, "add");
  if (call.wants(0)) out[0] = share * x_wins;
  if (call.wants(1)) out[1] = internal::sum_to(places.get(share) * v_wins, v.shape());
  return out;
}

// The results of kSet and kAdd are linear in both operands.
Values update_jvp(const JvpCall& call) {
  const Update mode = mode_of(call.attrs);
  if (mode != Update::kSet && mode != Update::kAdd) {
    return internal::transposed_jvp(op<"index_update">(), call);
  }
  const auto tangent = [&](std::size_t i) {
    const Tensor& t = call.tangents[i];
    return t.has_value() ? t : zeros_of(call.in[i].type());
  };
  return {Places(call.in, 2, call.attrs).update(tangent(0), tangent(1), call.attrs.text("mode"))};
}

Values update_vjp(const VjpCall& call) {
  const Places places(call.in, 2, call.attrs);
  switch (mode_of(call.attrs)) {
    case Update::kSet:
      return set_vjp(call, places);
    case Update::kMultiply:
      return multiply_vjp(call, places);
    case Update::kMin:
    case Update::kMax:
      return extreme_vjp(call, places);
    case Update::kAdd:
      break;
  }
  Values out(call.in.size());
  if (call.wants(0)) out[0] = call.ct();
  if (call.wants(1)) out[1] = internal::sum_to(places.get(call.ct()), call.in[1].shape());
  return out;
}

}  // namespace

void define_indexing(Registry& r) {
  const std::vector<std::pair<std::string_view, AttrValue>> rows = {{"axes", Ints{0}},
                                                                    {"at", int64_t{0}},
                                                                    {"starts", Ints{0, 1}},
                                                                    {"stops", Ints{4, 3}},
                                                                    {"steps", Ints{1, 1}}};
  const auto with_mode = [&](const char* mode) {
    auto attrs = rows;
    attrs.emplace_back("mode", std::string(mode));
    return attrs;
  };
  const std::vector<std::pair<double, double>> ranges = {{-2, 2}, {-2, 2}, {-4, 3}};
  // One row of a matrix, without an index array.
  const auto one_row = [](const char* mode) {
    return std::vector<std::pair<std::string_view, AttrValue>>{
        {"axes", Ints{}},      {"at", int64_t{0}},    {"starts", Ints{2, 0}},
        {"stops", Ints{3, 3}}, {"steps", Ints{1, 1}}, {"mode", std::string(mode)}};
  };
  r.define({
      .name = "index_get",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc =
          "The elements of a region of x: slices along some axes, index arrays along the others.",
      .operands = {"x", {"indices...", kIntegers}},
      .attrs = with_region({}),
      .type = get_type,
      .kernels = {.cpu = prepare_get},
      .vjp = get_vjp,
      .takes_sums = true,
      .jvp = get_jvp,
      .batch = get_batch,
      .samples = {.calls = {{{"[4,3]", "int32[3]"}, rows, {{-2, 2}, {-4, 3}}}}},
      .errors = {{{"float32[4,3]"}, "there are 0 index arrays for 1 axes", rows}},
  });
  r.define({
      .name = "index_update",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "x with a region of it set to a value, or updated by it; repeated indices all count, "
             "in order.",
      .operands = {"x", "value", {"indices...", kIntegers}},
      .attrs = with_region({{"mode", AttrKind::kText}}),
      .type = update_type,
      .kernels = {.cpu = prepare_update},
      .vjp = update_vjp,
      .jvp = update_jvp,
      .batch = update_batch,
      .samples = {.calls = {{{"[4,3]", "[5,2]", "int32[5]"}, with_mode("set"), ranges},
                            {{"[4,3]", "[2]", "int32[5]"}, with_mode("add"), ranges},
                            {{"[4,3]", "[5,1]", "int64[5]"}, with_mode("mul"), ranges},
                            {{"[4,3]", "[5,2]", "int32[5]"}, with_mode("max"), ranges},
                            {{"[4,3]", "[1,3]"}, one_row("set")},
                            {{"[4,3]", "[1,3]"}, one_row("add")}}},
      .errors = {{{"float32[4,3]", "float32[3]", "int32[5]"},
                  "sizes 3 and 2 on axis -1",
                  with_mode("set")},
                 {{"float32[4,3]", "float32[2]", "int32[5]"},
                  "must be set, add, mul, min or max",
                  with_mode("sum")}},
  });
}

}  // namespace etude::ops
