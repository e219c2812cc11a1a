// SPDX-License-Identifier: Apache-2.0
#include "etude/core/op/batching.h"

#include <algorithm>
#include <numeric>

#include "etude/core/call/builtin.h"
#include "etude/core/call/run.h"
#include "etude/core/context/context.h"

namespace etude {

Shape BatchCall::shape(std::size_t i) const {
  const Shape& whole = in[i].shape();
  return is_batched(i) ? Shape(whole.sizes().subspan(1)) : whole;
}

namespace batching {
namespace {

using Ints = std::vector<int64_t>;
using internal::reshaped;

// Axes of an example as axes of the batch.
Ints shifted(const Ints& axes, int rank) {
  Ints out;
  for (const int axis : normalize_axes(axes, rank)) out.push_back(axis + 1);
  return out;
}

std::vector<Tensor> all_leading(const BatchCall& call) {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < call.in.size(); ++i) out.push_back(leading(call, i));
  return out;
}

// Along one axis, or along all axes, flattened, if none is given.
Values along_one_or_flat(const BatchCall& call, const AttrValue& axis) {
  std::vector<Tensor> operands = all_leading(call);
  if (const int64_t* number = std::get_if<int64_t>(&axis)) {
    return call_again(call, operands,
                      {{"axis", int64_t{normalize_axis(*number, call.rank(0)) + 1}}});
  }
  for (Tensor& x : operands) {
    x = reshaped(x, Shape({call.size, x.size() / call.size}));
  }
  Values out = call_again(call, operands, {{"axis", int64_t{1}}});
  const auto is_keepdims = [](const AttrDef& def) { return def.name == "keepdims"; };
  if (!std::ranges::any_of(call.attrs.defs(), is_keepdims) || !call.attrs.flag("keepdims"))
    return out;
  for (Tensor& y : out) {
    y = with_example_shape(y, Shape(Ints(static_cast<std::size_t>(call.rank(0)), 1)));
  }
  return out;
}

}  // namespace

const Type* example_type(const Type* whole) {
  return intern_type(whole->dtype(), Shape(whole->shape().sizes().subspan(1)), whole->device());
}

Ints behind(int64_t first, std::span<const int64_t> sizes) {
  Ints out = {first};
  out.insert(out.end(), sizes.begin(), sizes.end());
  return out;
}

Shape with_rank(const Shape& example, int rank) {
  Ints sizes(static_cast<std::size_t>(rank - example.rank()), 1);
  sizes.insert(sizes.end(), example.begin(), example.end());
  return Shape(sizes);
}

Tensor with_example_shape(const Tensor& x, const Shape& example) {
  return reshaped(x, Shape(behind(x.shape()[0], example.sizes())));
}

Tensor spread(const Tensor& x, int64_t size) {
  return internal::broadcasted(x, Shape(behind(size, x.shape().sizes())));
}

Tensor leading(const BatchCall& call, std::size_t i) {
  if (call.is_batched(i) || !call.in[i].has_value()) return call.in[i];
  return spread(call.in[i], call.size);
}

Values call_again(const BatchCall& call, const std::vector<Tensor>& operands,
                  std::initializer_list<std::pair<std::string_view, AttrValue>> changes) {
  const OperandList in{std::span<const Tensor>(operands)};
  if (changes.size() == 0) return internal::run_all(call.op, in, call.attrs);
  std::vector<AttrValue> values(call.attrs.values().begin(), call.attrs.values().end());
  const std::vector<AttrDef>& defs = call.op.def().attrs;
  for (const auto& [name, value] : changes) {
    for (std::size_t i = 0; i < defs.size(); ++i) {
      if (defs[i].name == name) values[i] = value;
    }
  }
  return internal::run_all(call.op, in, values);
}

Values aligned(const BatchCall& call) {
  int rank = 0;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (call.in[i].has_value()) rank = std::max(rank, call.rank(i));
  }
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    Tensor& x = operands.emplace_back(call.in[i]);
    if (call.is_batched(i)) x = with_example_shape(x, with_rank(call.shape(i), rank));
  }
  return call_again(call, operands);
}

Values same(const BatchCall& call) { return call_again(call, all_leading(call)); }

Values along_axis(const BatchCall& call) {
  const AttrValue& axis = call.attrs.value("axis");
  const auto& defs = call.op.def().attrs;
  const auto def = std::ranges::find(defs, "axis", &AttrDef::name);
  if (def->kind != AttrKind::kInts) return along_one_or_flat(call, axis);
  Ints axes;
  if (const Ints* given = std::get_if<Ints>(&axis)) {
    axes = shifted(*given, call.rank(0));
  } else {
    axes.resize(static_cast<std::size_t>(call.rank(0)));
    std::iota(axes.begin(), axes.end(), 1);
  }
  return call_again(call, all_leading(call), {{"axis", axes}});
}

Values along_new_axis(const BatchCall& call) {
  const AttrValue& axis = call.attrs.value("axis");
  if (const int64_t* number = std::get_if<int64_t>(&axis)) {
    return call_again(call, all_leading(call),
                      {{"axis", int64_t{normalize_axis(*number, call.rank(0) + 1) + 1}}});
  }
  const Ints& given = std::get<Ints>(axis);
  return call_again(call, all_leading(call),
                    {{"axis", shifted(given, call.rank(0) + static_cast<int>(given.size()))}});
}

Values join_examples(const BatchCall& call, uint64_t examples) {
  if ((call.batched & ~examples) != 0) return {};
  std::vector<Tensor> operands;
  int64_t inner = 0;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    Tensor& x = operands.emplace_back(call.in[i]);
    if (((examples >> i) & 1) == 0 || !x.has_value()) continue;
    x = leading(call, i);
    const Shape whole = x.shape();
    inner = whole[1];
    x = reshaped(x, Shape(behind(call.size * inner, whole.sizes().subspan(2))));
  }
  Values out = call_again(call, operands);
  for (Tensor& y : out) {
    const Shape whole = y.shape();
    Ints sizes = behind(inner, whole.sizes().subspan(1));
    y = reshaped(y, Shape(behind(call.size, sizes)));
  }
  return out;
}

}  // namespace batching
}  // namespace etude
