// SPDX-License-Identifier: Apache-2.0
// Tensors from numbers and other dtypes.
#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/context/placement.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/elementwise/broadcast.h"
#include "etude/kernels/cpu/index/copy.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

// A record without operands, or with one operand whose type alone matters: tensors of one value.
template <int kValue>
OpDef constant(std::string_view name, std::string_view doc) {
  return {
      .name = name,
      .kind = Kind::kComposition,
      .doc = doc,
      .operands = {},
      .attrs = {{"shape", AttrKind::kInts}, {"dtype", kFloat32}, {"device", AttrKind::kText, none}},
      .lower =
          [](Operands, const Attrs& attrs) {
            const Shape shape = shape_of(attrs, "shape");
            const Type* type = intern_type(attrs.dtype("dtype"), shape, device_of(attrs));
            return Values{internal::full(type, kValue)};
          },
      .samples = {.calls = {{{}, {{"shape", std::vector<int64_t>{2, 3}}}}}},
      .errors = {{{},
                  "shape [2,-5] has a negative size",
                  {{"shape", std::vector<int64_t>{2, -5}}}}},
  };
}

template <int kValue>
OpDef constant_like(std::string_view name, std::string_view doc) {
  return {
      .name = name,
      .kind = Kind::kComposition,
      .doc = doc,
      .operands = {"x"},
      .attrs = {{"dtype", AttrKind::kDType, none}},
      .lower =
          [](Operands in, const Attrs& attrs) {
            const DType dtype = attrs.has("dtype") ? attrs.dtype("dtype") : in[0].dtype();
            return Values{
                internal::full(intern_type(dtype, in[0].shape(), in[0].device()), kValue)};
          },
      .samples = {.calls = {{{"[2,3]"}}, {{"[2]"}, {{"dtype", kInt32}}}}},
  };
}

void define_constants(Registry& r) {
  r.define(constant<0>("zeros", "A tensor of zeros of the given shape."));
  r.define(constant<1>("ones", "A tensor of ones of the given shape."));
  r.define(constant<0>(
      "empty",
      "A tensor of the given shape with unspecified elements. At present the elements are zeros."));
  r.define(constant_like<0>(
      "zeros_like",
      "Zeros of the shape of x. The dtype is the dtype of x unless another dtype is given."));
  r.define(constant_like<1>(
      "ones_like",
      "Ones of the shape of x. The dtype is the dtype of x unless another dtype is given."));
  r.define(constant_like<0>("empty_like", "A tensor of the shape of x with unspecified elements."));
  r.define({
      .name = "asarray",
      .kind = Kind::kComposition,
      .doc = "x as a tensor, converted if a dtype is given. Shares storage until a write.",
      .operands = {"x"},
      .attrs = {{"dtype", AttrKind::kDType, none}},
      .lower =
          [](Operands in, const Attrs& attrs) {
            return Values{attrs.has("dtype") ? internal::cast(in[0], attrs.dtype("dtype")) : in[0]};
          },
      .samples = {.calls = {{{"[2,3]"}}, {{"[2]"}, {{"dtype", kFloat64}}}}},
  });
  r.define({
      .name = "full_like",
      .kind = Kind::kComposition,
      .doc = "A tensor of the shape of x whose elements are all `value`.",
      .operands = {"x", "value"},
      .lower =
          [](Operands in, const Attrs&) {
            return Values{full(in[0].shape(), internal::moved(in[1], in[0].device()))};
          },
      .samples = {.calls = {{{"[2,3]", "[]"}}}},
  });
}

Values full_batch(const BatchCall& call) {
  const std::vector<int64_t>& shape = call.attrs.ints("shape");
  const Shape ones(std::vector<int64_t>(shape.size(), 1));
  return {broadcast_to(batching::with_example_shape(call.in[0], ones),
                       batching::behind(call.size, shape))};
}

// Whether the operand holds all integers of the dtype that it was made from.
bool was_widened(const RewriteCall& call) {
  const DType from = call.source->dtype(), through = call.types[0]->dtype();
  return is_integer(through) && itemsize(through) > itemsize(from) &&
         (kSignedIntegers.contains(through) || kUnsignedIntegers.contains(from));
}

}  // namespace

void define_creation(Registry& r) {
  define_constants(r);
  r.define({
      .name = "full",
      .kind = Kind::kLinear,
      .doc = "A tensor of the given shape whose elements are all `value`. Its dtype is the dtype "
             "of `value`.",
      .operands = {"value"},
      .attrs = {{"shape", AttrKind::kInts, true}},
      .type =
          [](const TypeCall& call) {
            ETUDE_REQUIRE(call.rank(0) == 0, "operand 'value' has shape {}, but must be a scalar",
                          call.shape(0).to_string());
            return Types{call.make(call.dtype(0), shape_of(call.attrs, "shape"))};
          },
      .kernels = {.cpu = kernels::cpu::prepare_fill},
      .transpose = [](Operands, int, const Tensor& ct,
                      const Attrs&) { return internal::sum_to(ct, {}); },
      .batch = full_batch,
      .samples = {.calls = {{{"[]"}, {{"shape", std::vector<int64_t>{2, 3}}}}}},
      .errors = {{{"float32[]"},
                  "shape [-1] has a negative size",
                  {{"shape", std::vector<int64_t>{-1}}}}},
  });
  r.define({
      .name = "astype",
      .kind = Kind::kGeneral,
      .doc = "x with its elements converted to `dtype`: floats to integers truncate and saturate.",
      .operands = {"x"},
      .attrs = {{"dtype", AttrKind::kDType}},
      .type =
          [](const TypeCall& call) {
            const DType to = call.attrs.dtype("dtype");
            ETUDE_REQUIRE(!is_complex(call.dtype(0)) || is_complex(to),
                          "complex values do not convert to {}. Use real(x) or abs(x)", name(to));
            return Types{call.make(to, call.shape(0))};
          },
      .kernels = {.cpu = kernels::cpu::prepare_convert},
      .vjp =
          [](const VjpCall& call) {
            Values out(1);
            const DType from = call.in[0].dtype();
            if (!is_differentiable(from) || !is_differentiable(call.out[0].dtype())) return out;
            // Of a real value that became complex only the real part matters.
            const bool narrows = is_complex(call.ct().dtype()) && !is_complex(from);
            out[0] = internal::cast(narrows ? real(call.ct()) : call.ct(), from);
            return out;
          },
      .batch = batching::same,
      .is_cheap = true,
      .rewrites = {{.name = "astype_to_own_dtype",
                    .sample = "graph f(x: T[2,3]) -> (T[2,3])\n"
                              "  %1 = astype(x, dtype=T)\n"
                              "  return %1"},
                   {.name = "astype_of_wider_integer",
                    .inner = "astype",
                    .when = was_widened,
                    .to = "astype",
                    .attrs = [](const RewriteCall& call) { return call.attrs; },
                    .dtypes = DTypeSet(kInt8) | kInt16 | kInt32 | kUInt8 | kUInt16 | kUInt32,
                    .sample = "graph f(x: T[2,3]) -> (float32[2,3])\n"
                              "  %1 = astype(x, dtype=int64)\n"
                              "  %2 = astype(%1, dtype=float32)\n"
                              "  return %2"}},
      .samples = {.calls = {{{"[2,3]"}, {{"dtype", kFloat64}}},
                            {{"[2,3]"}, {{"dtype", kInt32}}},
                            {{"[2,3]"}, {{"dtype", kComplex128}}}}},
  });
}

}  // namespace etude::ops
