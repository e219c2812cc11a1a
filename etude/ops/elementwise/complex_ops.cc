// SPDX-License-Identifier: Apache-2.0
// Parts of complex numbers, and the functions that differ for complex numbers: abs and sign.
// Complex cotangents follow the convention of the tape: the gradient is conjugate to the
// derivative.
#include <complex>

#include "etude/core/call/builtin.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/elementwise/complex.h"
#include "etude/kernels/cpu/simd/program.h"
#include "etude/ops.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"
#include "etude/ops/records.h"
#include "etude/ops/zero_gradient.h"

namespace etude::ops {
namespace {

// Real numbers are their own real part and their own conjugate.
void prepare_conj(const PrepareCall& call) {
  if (!is_complex(call.dtype(0))) return call.view(0);
  kernels::cpu::prepare_complex_conj(call);
}

void prepare_real(const PrepareCall& call) {
  if (!is_complex(call.dtype(0))) return call.view(0);
  kernels::cpu::prepare_complex_real(call);
}

void prepare_imag(const PrepareCall& call) {
  if (!is_complex(call.dtype(0))) return kernels::cpu::prepare_zeros(call);
  kernels::cpu::prepare_complex_imag(call);
}

void prepare_abs(const PrepareCall& call) {
  if (!is_complex(call.dtype(0))) return kernels::cpu::prepare_elementwise(call);
  kernels::cpu::prepare_complex_abs(call);
}

Types real_type(const TypeCall& call) {
  return {call.make(real_dtype(call.dtype(0)), call.shape(0))};
}

// A real cotangent of a complex operand, as a complex number.
Tensor widen(const Tensor& ct, DType dtype) { return internal::cast(ct, dtype); }

Tensor imag_transpose(Operands in, int, const Tensor& ct, const Attrs&) {
  if (!is_complex(in[0].dtype())) return internal::full(in[0].type(), 0);
  return multiply(widen(ct, in[0].dtype()), Tensor(std::complex<float>(0, 1)));
}

// x / |x| moves by the part of its tangent that is at a right angle to x, over |x|.
Values sign_vjp(const VjpCall& call) {
  const Tensor& x = call.in[0];
  const DType dtype = x.dtype();
  if (!is_complex(dtype)) return zero_gradient(call);
  const Tensor& s = call.out[0];
  const Tensor along = real(multiply(conj(s), call.ct()));
  const Tensor across = subtract(call.ct(), multiply(s, widen(along, dtype)));
  const Tensor length = abs(x);
  const Tensor safe = where(equal(length, 0.0), 1.0, length);
  return {divide(across, widen(safe, dtype))};
}

// |x| moves along x / |x|, which is taken as 0 at 0.
Values abs_vjp(const VjpCall& call) {
  const DType dtype = call.in[0].dtype();
  const Tensor direction = sign(call.in[0]);
  const Tensor ct = is_complex(dtype) ? widen(call.ct(), dtype) : call.ct();
  return run_all(op<"strong_product">(), {&ct, &direction});  // as of partials: 0 times NaN is 0
}

void define_parts(Registry& r) {
  r.define({
      .name = "conj",
      .kind = Kind::kLinear,
      .doc = "x with its imaginary part negated. Real x is returned unchanged.",
      .operands = {"x"},
      .dtypes = kNumeric,
      .type = same_type,
      .kernels = {.cpu = prepare_conj},
      .transpose = [](Operands, int, const Tensor& ct, const Attrs&) { return conj(ct); },
      .batch = batching::same,
      .rewrites = {{.name = "conj_of_real",
                    .dtypes = kReal,
                    .sample = "graph f(x: T[9,15]) -> (T[9,15])\n"
                              "  %1 = conj(x)\n"
                              "  return %1"},
                   {.name = "conj_of_conj",
                    .inner = "conj",
                    .dtypes = kComplex,
                    .sample = "graph f(x: T[9,15]) -> (T[9,15])\n"
                              "  %1 = conj(x)\n"
                              "  %2 = conj(%1)\n"
                              "  return %2"}},
      .accepts_slices = 1,
      .samples = {.calls = {{{"[2,3]"}}, {{"[]"}}, {{"[0,2]"}}}},
      .errors = {{{"bool[2]"}, "operand 'x' is bool, but must be one of"}},
  });
  r.define({
      .name = "real",
      .kind = Kind::kLinear,
      .doc = "Real part of x, a real tensor. Real x is returned unchanged.",
      .operands = {"x"},
      .dtypes = kNumeric,
      .type = real_type,
      .kernels = {.cpu = prepare_real},
      .transpose = [](Operands in, int, const Tensor& ct,
                      const Attrs&) { return widen(ct, in[0].dtype()); },
      .batch = batching::same,
      .samples = {.calls = {{{"[2,3]"}}, {{"[]"}}, {{"[0,2]"}}}},
      .errors = {{{"bool[2]"}, "operand 'x' is bool, but must be one of"}},
  });
  r.define({
      .name = "imag",
      .kind = Kind::kLinear,
      .doc = "Imaginary part of x, a real tensor. The result is zeros for real x.",
      .operands = {"x"},
      .dtypes = kNumeric,
      .type = real_type,
      .kernels = {.cpu = prepare_imag},
      .transpose = imag_transpose,
      .batch = batching::same,
      .samples = {.calls = {{{"[2,3]"}}, {{"[]"}}, {{"[0,2]"}}}},
      .errors = {{{"bool[2]"}, "operand 'x' is bool, but must be one of"}},
  });
}

void define_polar(Registry& r) {
  r.define({
      .name = "abs",
      .kind = Kind::kElementwise,
      .doc = "Absolute value of x, a real tensor. The smallest integer of a signed dtype wraps. "
             "The gradient at 0 is 0.",
      .operands = {"x"},
      .dtypes = kNumeric,
      .type = real_type,
      .scalar = values_of<1>([](auto x) { return math::abs(x); }),
      .kernels = {.cpu = prepare_abs},
      .vjp = abs_vjp,
      .rewrites = {{.name = "abs_of_abs",
                    .inner = "abs",
                    .to = "abs",
                    .dtypes = kReal,
                    .sample = "graph f(x: T[9,15]) -> (T[9,15])\n"
                              "  %1 = abs(x)\n"
                              "  %2 = abs(%1)\n"
                              "  return %2"}},
      .samples = {.avoid = {0.0}},
      .errors = {{{"bool[2]"}, "operand 'x' is bool, but must be one of"}},
  });
  r.define({
      .name = "sign",
      .kind = Kind::kElementwise,
      .doc = "-1, 0 or 1 by the sign of x. For complex x, x / abs(x).",
      .operands = {"x"},
      .dtypes = kNumeric,
      .scalar = values_of<1>([](auto x) { return math::sign(x); }),
      .vjp = sign_vjp,
      .samples = {.avoid = {0.0}},
      .errors = {{{"bool[2]"}, "operand 'x' is bool, but must be one of"}},
  });
  r.define({
      .name = "angle",
      .kind = Kind::kComposition,
      .doc = "Angle of x in the complex plane, between -pi and pi. Integers become float32 first.",
      .operands = {"x"},
      .dtypes = kFloatingComplex,
      .casts_integers = true,
      .lower = [](Operands in, const Attrs&) { return Values{atan2(imag(in[0]), real(in[0]))}; },
      .samples = {.calls = {{{"[2,3]"}}, {{"[]"}}}, .ranges = {{0.5, 2}}},
  });
}

}  // namespace

void define_complex_ops(Registry& r) {
  define_parts(r);
  define_polar(r);
}

}  // namespace etude::ops
