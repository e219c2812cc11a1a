// SPDX-License-Identifier: Apache-2.0
#include "etude/ops/index/masked_write.h"

#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/context/context.h"
#include "etude/core/copies.h"
#include "etude/core/internal/call.h"
#include "etude/kernels/cpu/simd/program.h"
#include "etude/ops/axes.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

// An index with one mask: its other items.
struct MaskedIndex {
  const Tensor* mask = nullptr;
  Index others;        // with slices of whole axes in the place of the mask
  bool is_all = true;  // the others name all of x
  bool drops = false;  // the others have an integer
  int behind = 0;      // axes after the axes of the mask, in the indexed part
};

const Tensor* tensor_of(const IndexItem& item) { return std::get_if<Tensor>(&item.value()); }

bool is_whole(const IndexItem& item) {
  const Slice* s = std::get_if<Slice>(&item.value());
  return std::holds_alternative<Ellipsis>(item.value()) ||
         (s != nullptr && !s->start && !s->stop && s->step == 1);
}

int axes_taken(const IndexItem& item) {
  if (const Tensor* mask = tensor_of(item)) return mask->rank();
  return std::holds_alternative<NewAxis>(item.value()) ||
                 std::holds_alternative<Ellipsis>(item.value())
             ? 0
             : 1;
}

// Whether the mask has a size of 0 where x has another: it chooses nothing, and does not broadcast.
bool is_empty_elsewhere(const Shape& mask, const Shape& x, int axis) {
  for (int a = 0; a < mask.rank(); ++a) {
    if (mask[a] != x[axis + a]) return true;
  }
  return false;
}

// No mask in the result: the index has no mask or several, or has arrays or too many items, or the
// mask is empty where x is not.
MaskedIndex parse_masked(const Shape& x, const Index& index) {
  MaskedIndex out;
  int left = x.rank();
  bool is_filled = false;
  for (const IndexItem& item : index) {
    const Tensor* t = tensor_of(item);
    if (t != nullptr && (t->dtype() != kBool || out.mask != nullptr)) return {};
    if (t != nullptr) out.mask = t;
    left -= axes_taken(item);
    is_filled = is_filled || std::holds_alternative<Ellipsis>(item.value());
  }
  if (out.mask == nullptr || left < 0) return {};
  int axis = 0;
  bool is_behind = false;
  for (const IndexItem& item : index) {
    const bool fills = std::holds_alternative<Ellipsis>(item.value());
    const bool is_number = std::holds_alternative<int64_t>(item.value());
    if (tensor_of(item) != nullptr) {
      require_mask_sizes(out.mask->shape(), x, axis);
      if (is_empty_elsewhere(out.mask->shape(), x, axis)) return {};
      out.others.insert(out.others.end(), at(out.mask->rank()), IndexItem(kAll));
      is_behind = true;
    } else {
      out.others.push_back(item);
      out.is_all = out.is_all && is_whole(item);
      out.drops = out.drops || is_number;
      if (is_behind) out.behind += fills ? left : is_number ? 0 : 1;
    }
    axis += fills ? left : axes_taken(item);
  }
  if (!is_filled) out.behind += left;
  return out;
}

// The value, so that it broadcasts to the part; absent if that depends on the number of selected
// elements. A size of 1 along the selected elements becomes a size of 1 for each axis of the mask.
Tensor value_by_element(const MaskedIndex& index, const Shape& part, Tensor value) {
  const int rank = part.rank() - index.mask->rank() + 1;  // the rank of the indexed values
  const Shape& given = value.shape();
  int lead = 0;
  while (given.rank() - lead > rank && given[lead] == 1) ++lead;
  std::vector<int64_t> sizes(given.begin() + lead, given.end());
  if (index.drops) {
    if (value.size() != 1) return {};
    sizes.clear();
  }
  const auto own = static_cast<int>(sizes.size());
  if (own > index.behind) {
    const auto counted = sizes.begin() + (own - index.behind - 1);
    if (*counted != 1) return {};
    sizes.insert(sizes.erase(counted), at(index.mask->rank()), 1);
  }
  const Shape shape(sizes);
  bool fits = own <= rank;
  for (int a = 1; fits && a <= shape.rank(); ++a) {
    const int64_t size = shape[shape.rank() - a];
    fits = size == 1 || size == part[part.rank() - a];
  }
  Shape named;  // "?": as many as the mask chooses
  for (int a = 0; a < part.rank() - index.behind - index.mask->rank(); ++a)
    named.push_back(part[a]);
  named.push_back(kAny);
  for (int a = part.rank() - index.behind; a < part.rank(); ++a) named.push_back(part[a]);
  ETUDE_REQUIRE(
      fits, "the value has shape {}, which does not broadcast to the shape {} of the indexed part",
      given.to_string(), named.to_string());
  return reshaped(value, shape);
}

// x with the value where the mask is true, in one pass, and in place if x is not shared.
Tensor updated(Tensor& x, const Tensor& mask, const Tensor& value, ScatterMode mode) {
  if (mode == ScatterMode::kSet) {
    return run(op<"where">(), OperandList({&mask, &value, &x}).view(0b100));
  }
  ETUDE_REQUIRE(x.dtype() != kBool, "+= and *= need numbers, but the indexed tensor is bool");
  const Op& change = mode == ScatterMode::kAdd ? op<"masked_add">() : op<"masked_multiply">();
  return run(change, OperandList({&mask, &x, &value}).view(0b010));
}

}  // namespace

void require_mask_sizes(const Shape& mask, const Shape& x, int axis) {
  for (int a = 0; a < mask.rank(); ++a) {
    // The Array API standard: a size of 0 fits each axis, and chooses nothing.
    ETUDE_REQUIRE_CODE(kOutOfRange, mask[a] == x[axis + a] || mask[a] == 0,
                       "the mask has shape {}, but it indexes axes {} to {} of shape {}. A mask "
                       "must have the sizes of the axes it indexes, or 0",
                       mask.to_string(), axis, axis + mask.rank() - 1, x.to_string());
  }
}

bool write_masked(Tensor& x, const Index& index, const Tensor& value, ScatterMode mode,
                  CallSite where) {
  const MaskedIndex parsed = parse_masked(x.shape(), index);
  if (parsed.mask == nullptr) return false;
  Tensor part = parsed.is_all ? Tensor() : get_index(x, parsed.others, where);
  const Shape shape = parsed.is_all ? x.shape() : part.shape();
  const Tensor own = value_by_element(parsed, shape, value);
  if (!own.has_value()) return false;
  Shape sizes = parsed.mask->shape();
  for (int i = 0; i < parsed.behind; ++i) sizes.push_back(1);
  const Tensor mask = reshaped(*parsed.mask, sizes);
  if (!parsed.is_all) {
    part = updated(part, mask, own, mode);
    set_index(x, parsed.others, Arg(part, where), ScatterMode::kSet, where);
    return true;
  }
  internal::note_if_copied(x, "an indexed write", where);
  x = updated(x, mask, own, mode);
  return true;
}

void define_masked_write(Registry& r) {
  r.define({
      .name = "masked_add",
      .space = "internal",
      .kind = Kind::kElementwise,
      .doc = "x + v where the mask holds, else x.",
      .operands = {{"mask", kBool}, "x", "v"},
      .dtypes = kNumeric,
      .scalar = scalar_of<3>([](auto m, auto x, auto v) { return math::where(m, x + v, x); }),
  });
  r.define({
      .name = "masked_multiply",
      .space = "internal",
      .kind = Kind::kElementwise,
      .doc = "x * v where the mask holds, else x.",
      .operands = {{"mask", kBool}, "x", "v"},
      .dtypes = kNumeric,
      .scalar = scalar_of<3>([](auto m, auto x, auto v) { return math::where(m, x * v, x); }),
  });
}

}  // namespace etude::ops
