// SPDX-License-Identifier: Apache-2.0
// Pooling over windows of images. The gradient of a maximum goes to the first maximum of its window
// in row-major order, by an op that is linear and so has derivatives of its own.
#include "etude/base/check.h"
#include "etude/core/context/context.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/conv/pool.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/image/windows.h"

namespace etude::ops {
namespace {

using kernels::cpu::Pool;
using kernels::cpu::PoolPlan;

Window2d pool_window(const Attrs& attrs, const Shape& x) {
  ETUDE_REQUIRE(x.rank() == 4, "operand 'x' has shape {}, but must be [n, height, width, channels]",
                x.to_string());
  const std::array<int64_t, 2> size = pair_attr(attrs, "window");
  const Window2d window = resolve_window(attrs, x, size, pair_attr(attrs, "strides", size));
  for (const WindowAxis& axis : window) {
    ETUDE_REQUIRE(axis.input > 0, "operand 'x' has shape {}: a result would see no pixel",
                  x.to_string());
    ETUDE_REQUIRE(
        axis.before < axis.size && axis.after < axis.size,
        "explicit_padding {} is not smaller than the window {}: a result would see no pixel",
        std::max(axis.before, axis.after), axis.size);
  }
  return window;
}

PoolPlan pool_plan(const Attrs& attrs, const Shape& x) {
  const Window2d window = pool_window(attrs, x);
  PoolPlan p;
  p.n = x[0], p.h = x[1], p.w = x[2], p.c = x[3];
  p.oh = window[0].output, p.ow = window[1].output;
  p.kh = window[0].size, p.kw = window[1].size;
  p.sh = window[0].stride, p.sw = window[1].stride;
  p.top = window[0].before, p.left = window[1].before;
  return p;
}

const Type* pool_type(const TypeCall& call, const Shape& x) {
  const Window2d window = pool_window(call.attrs, x);
  return call.make(call.dtype(0), {x[0], window[0].output, window[1].output, x[3]});
}

// The cotangent of a pooling of `x` is as large as its result, so that no kernel reads beyond it.
void require_pooled(const TypeCall& call, const Shape& x) {
  const Shape& want = pool_type(call, x)->shape();
  ETUDE_REQUIRE(call.shape(0) == want,
                "operand 'ct' has shape {}, but the result of this pooling has {}",
                call.shape(0).to_string(), want.to_string());
}

template <Pool kPool>
void prepare(const PrepareCall& call) {
  const bool makes_x = kPool == Pool::kMaxScatter || kPool == Pool::kMeanSpread;
  const Shape& x = makes_x ? call.out.results[0]->shape() : call.shape(0);
  kernels::cpu::prepare_pool2d(call, pool_plan(call.attrs, x), kPool);
}

// The common attributes of all pooling ops: the values of window_attrs().
std::vector<AttrValue> window_values(const Attrs& attrs) {
  return {attrs.values().begin(), attrs.values().begin() + 4};
}

// Functions, since a global object may be initialised after the ops are registered.
std::vector<Sample> pooling_calls() {
  return {
      {{"[2,4,6,3]"}, {{"window", std::vector<int64_t>{2}}}},
      {{"[1,5,5,1]"},
       {{"window", std::vector<int64_t>{3}},
        {"strides", std::vector<int64_t>{2, 1}},
        {"padding", std::string("same")}}},
      {{"[1,4,3,2]"},
       {{"window", std::vector<int64_t>{2, 3}},
        {"explicit_padding", std::vector<int64_t>{1, 0, 2, 1}}}},
      {{"[0,4,4,2]"}, {{"window", std::vector<int64_t>{2}}}},
  };
}

std::vector<ErrorCase> pooling_errors() {
  return {
      {{"float32[4,4,1]"},
       "must be [n, height, width, channels]",
       {{"window", std::vector<int64_t>{2}}}},
      {{"float32[1,4,4,1]"}, "no result is left", {{"window", std::vector<int64_t>{5}}}},
      {{"float32[1,0,4,1]"},
       "would see no pixel",
       {{"window", std::vector<int64_t>{3}},
        {"explicit_padding", std::vector<int64_t>{2, 2, 2, 2}}}},
      {{"float32[1,4,4,1]"}, "window has 3 numbers", {{"window", std::vector<int64_t>{2, 2, 2}}}},
      {{"float32[1,4,4,1]"},
       "strides is 0",
       {{"window", std::vector<int64_t>{2}}, {"strides", std::vector<int64_t>{0}}}},
      {{"float32[1,4,4,1]"},
       "padding is 'full'",
       {{"window", std::vector<int64_t>{2}}, {"padding", std::string("full")}}},
      {{"float32[1,4,4,1]"},
       "not smaller than the window",
       {{"window", std::vector<int64_t>{2}},
        {"explicit_padding", std::vector<int64_t>{2, 0, 0, 0}}}},
  };
}

// The second operand, which selects the maxima, has no derivative: the selection is piecewise
// constant.
void define_max_derivatives(Registry& r) {
  r.define({
      .name = "max_pool2d_scatter",
      .space = "internal",
      .doc = "The transpose of max_pool2d_gather: each element of ct at the first maximum of its "
             "window in x.",
      .operands = {"ct", "x"},
      .attrs = window_attrs(),
      .dtypes = kFloating,
      .type =
          [](const TypeCall& call) {
            require_pooled(call, call.shape(1));
            return Types{call.types[1]};
          },
      .kernels = {.cpu = prepare<Pool::kMaxScatter>},
      .vjp =
          [](const VjpCall& call) {
            Values out(2);
            if (call.wants(0)) {
              out[0] = run(op<"max_pool2d_gather">(), {&call.ct(), &call.in[1]},
                           window_values(call.attrs));
            }
            return out;
          },
      .jvp =
          [](const JvpCall& call) {
            Values out(1);
            if (call.tangents[0].has_value()) {
              out[0] =
                  run(op<"max_pool2d_scatter">(), {&call.tangents[0], &call.in[1]}, call.attrs);
            }
            return out;
          },
      .batch = batching::joined<0b11>,
      .samples = {.calls = {{{"[2,2,3,3]", "[2,4,6,3]"}, {{"window", std::vector<int64_t>{2}}}}}},
      .errors = {{{"float32[2,9,3,3]", "float32[2,4,6,3]"},
                  "operand 'ct' has shape [2,9,3,3]",
                  {{"window", std::vector<int64_t>{2}}}}},
  });
  r.define({
      .name = "max_pool2d_gather",
      .space = "internal",
      .doc = "The elements of g at the first maximum of each window of x.",
      .operands = {"g", "x"},
      .attrs = window_attrs(),
      .dtypes = kFloating,
      .type =
          [](const TypeCall& call) {
            ETUDE_REQUIRE(call.shape(0) == call.shape(1),
                          "operands 'g' and 'x' have shapes {} and {}, but must be alike",
                          call.shape(0).to_string(), call.shape(1).to_string());
            return Types{pool_type(call, call.shape(1))};
          },
      .kernels = {.cpu = prepare<Pool::kMaxGather>},
      .vjp =
          [](const VjpCall& call) {
            Values out(2);
            if (call.wants(0)) {
              out[0] = run(op<"max_pool2d_scatter">(), {&call.ct(), &call.in[1]},
                           window_values(call.attrs));
            }
            return out;
          },
      .jvp =
          [](const JvpCall& call) {
            Values out(1);
            if (call.tangents[0].has_value()) {
              out[0] = run(op<"max_pool2d_gather">(), {&call.tangents[0], &call.in[1]}, call.attrs);
            }
            return out;
          },
      .batch = batching::joined<0b11>,
      .samples = {.calls = {{{"[2,4,6,3]", "[2,4,6,3]"}, {{"window", std::vector<int64_t>{2}}}}}},
      .errors = {{{"float32[2,4,4,3]", "float32[2,4,6,3]"},
                  "must be alike",
                  {{"window", std::vector<int64_t>{2}}}}},
  });
}

void define_max_pool(Registry& r) {
  r.define({
      .name = "max_pool2d",
      .space = "nn",
      .doc = "Largest element of each window of x [n, height, width, channels]. strides default to "
             "the window. padding is \"valid\", \"same\" or explicit_padding {top, bottom, left, "
             "right}. The first of several equal maxima gets the gradient.",
      .operands = {"x"},
      .attrs = window_attrs(),
      .dtypes = kReal,
      .type = [](const TypeCall& call) { return Types{pool_type(call, call.shape(0))}; },
      .kernels = {.cpu = prepare<Pool::kMax>},
      .vjp =
          [](const VjpCall& call) {
            return Values{run(op<"max_pool2d_scatter">(), {&call.ct(), &call.in[0]},
                              window_values(call.attrs))};
          },
      .jvp =
          [](const JvpCall& call) {
            return Values{run(op<"max_pool2d_gather">(), {&call.tangents[0], &call.in[0]},
                              window_values(call.attrs))};
          },
      .batch = batching::joined<0b1>,
      .samples = {.calls = pooling_calls()},
      .errors = pooling_errors(),
  });
}

void define_mean_pool(Registry& r) {
  std::vector<AttrDef> gradient_attrs = window_attrs();
  gradient_attrs.emplace_back("size", AttrKind::kInts);
  r.define({
      .name = "avg_pool2d",
      .space = "nn",
      .kind = Kind::kLinear,
      .doc = "Mean of each window of x [n, height, width, channels], over the elements inside the "
             "image. strides default to the window. padding is \"valid\", \"same\" or "
             "explicit_padding {top, bottom, left, right}.",
      .operands = {"x"},
      .attrs = window_attrs(),
      .dtypes = kFloating,
      .type = [](const TypeCall& call) { return Types{pool_type(call, call.shape(0))}; },
      .kernels = {.cpu = prepare<Pool::kMean>},
      .transpose =
          [](Operands in, int, const Tensor& ct, const Attrs& attrs) {
            std::vector<AttrValue> values = window_values(attrs);
            values.emplace_back(std::vector<int64_t>{in[0].shape()[1], in[0].shape()[2]});
            return run(op<"avg_pool2d_input_gradient">(), {&ct}, values);
          },
      .batch = batching::joined<0b1>,
      .samples = {.calls = pooling_calls()},
      .errors = pooling_errors(),
  });
  r.define({
      .name = "avg_pool2d_input_gradient",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "The transpose of avg_pool2d for images of `size`.",
      .operands = {"ct"},
      .attrs = std::move(gradient_attrs),
      .dtypes = kFloating,
      .type =
          [](const TypeCall& call) {
            const std::vector<int64_t>& size = call.attrs.ints("size");
            const Shape& ct = call.shape(0);
            ETUDE_REQUIRE(ct.rank() == 4 && size.size() == 2 && size[0] >= 1 && size[1] >= 1,
                          "operand 'ct' has shape {} and size has {} numbers, but must have 4 axes "
                          "and height and width",
                          ct.to_string(), size.size());
            const Shape x = {ct[0], size[0], size[1], ct[3]};
            require_pooled(call, x);
            return Types{call.make(call.dtype(0), x)};
          },
      .kernels = {.cpu = prepare<Pool::kMeanSpread>},
      .transpose =
          [](Operands, int, const Tensor& ct, const Attrs& attrs) {
            return run(op<"avg_pool2d">(), {&ct}, window_values(attrs));
          },
      .batch = batching::joined<0b1>,
      .samples = {.calls = {{{"[2,2,3,3]"},
                             {{"window", std::vector<int64_t>{2}},
                              {"size", std::vector<int64_t>{4, 6}}}}}},
      .errors = {{{"float32[2,9,3,3]"},
                  "operand 'ct' has shape [2,9,3,3]",
                  {{"window", std::vector<int64_t>{2}}, {"size", std::vector<int64_t>{4, 6}}}}},
  });
}

}  // namespace

void define_pooling(Registry& r) {
  define_max_pool(r);
  define_max_derivatives(r);
  define_mean_pool(r);
}

}  // namespace etude::ops
