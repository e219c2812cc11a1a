// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms. The transforms of one axis are linear ops whose transposes are each
// other, so that derivatives of every order exist; the functions over axes are made of them.
#include <algorithm>
#include <numeric>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/linalg/fft.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

constexpr std::string_view kFourierSpace = "fft";
constexpr DTypeSet kDTypes = DTypeSet(kFloat32) | kFloat64 | kComplex;
using Ints = std::vector<int64_t>;

// --- one axis ---

kernels::cpu::FourierOptions fourier_options(const PrepareCall& call) {
  return {.axis = axis_of(call.attrs, call.shape(0)),
          .divides = static_cast<int>(call.attrs.integer("divides"))};
}

Types of_real_type(const TypeCall& call) {
  Shape shape = call.shape(0);
  const int axis = axis_of(call.attrs, shape);
  ETUDE_REQUIRE(shape[axis] >= 1,
                "operand 'x' has shape {}, and axis {} has no element to transform",
                shape.to_string(), axis);
  shape.set(axis, shape[axis] / 2 + 1);
  return {call.make(call.dtype(0) == kFloat32 ? kComplex64 : kComplex128, shape)};
}

Types to_real_type(const TypeCall& call) {
  Shape shape = call.shape(0);
  const int axis = axis_of(call.attrs, shape);
  const int64_t n = call.attrs.integer("n");
  ETUDE_REQUIRE(
      n >= 1 && n / 2 + 1 == shape[axis],
      "operand 'x' has shape {}: {} real numbers have a half spectrum of {} along axis {}",
      shape.to_string(), n, n / 2 + 1, axis);
  shape.set(axis, n);
  return {call.make(real_dtype(call.dtype(0)), shape)};
}

Tensor to_real(const Tensor& x, int64_t axis, int64_t n, int64_t divides, bool doubles) {
  return run(op<"fourier_to_real">(), {&x}, {axis, n, divides, doubles});
}
Tensor of_real(const Tensor& x, int64_t axis, int64_t divides, bool doubles) {
  return run(op<"fourier_of_real">(), {&x}, {axis, divides, doubles});
}

Types fit_type(const TypeCall& call) {
  Shape shape = call.shape(0);
  const int axis = axis_of(call.attrs, shape);
  const int64_t n = call.attrs.integer("n");
  ETUDE_REQUIRE(n >= 1, "a transform of {} elements along axis {} of {}. It needs 1 or more", n,
                axis, shape.to_string());
  constexpr int64_t kMost = 1 << 26;  // roots of unity of all of them are made beforehand
  ETUDE_REQUIRE(n <= kMost, "a transform of {} elements along axis {} of {}. It takes up to {}", n,
                axis, shape.to_string(), kMost);
  shape.set(axis, n);
  return {call.make(call.dtype(0), shape)};
}

void define_fit(Registry& r) {
  r.define({
      .name = "fit_axis",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "x with n elements along an axis: cut at its end, or with zeros behind.",
      .operands = {"x"},
      .attrs = {{"axis", AttrKind::kInt}, {"n", AttrKind::kInt}},
      .dtypes = kDTypes,
      .type = fit_type,
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        kernels::cpu::prepare_fit(call, axis_of(call.attrs, call.shape(0)));
                      }},
      .transpose =
          [](Operands in, int, const Tensor& ct, const Attrs& attrs) {
            const int axis = axis_of(attrs, in[0].shape());
            return run(op<"fit_axis">(), {&ct}, {axis, in[0].shape()[axis]});
          },
      .batch = batching::along_axis,
      .samples = {.calls = {{{"[3,4]"}, {{"axis", int64_t{0}}, {"n", int64_t{5}}}},
                            {{"[2,4]"}, {{"axis", int64_t{-1}}, {"n", int64_t{3}}}},
                            {{"[2,4]"}, {{"axis", int64_t{-1}}, {"n", int64_t{4}}}}}},
      .errors = {{{"float32[2]"},
                  "a transform of 0 elements along axis 0 of [2]. It needs 1 or more",
                  {{"axis", int64_t{0}}, {"n", int64_t{0}}}},
                 {{"float32[2]"},
                  "It takes up to 67108864",
                  {{"axis", int64_t{0}}, {"n", int64_t{1} << 40}}}},
  });
}

void define_transforms(Registry& r) {
  const AttrDef axis = {"axis", AttrKind::kInt}, divides = {"divides", AttrKind::kInt};
  const std::vector<std::pair<std::string_view, AttrValue>> last = {
      {"axis", int64_t{-1}}, {"divides", int64_t{0}}, {"inverse", false}};
  r.define({
      .name = "fourier",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "The transform of x along an axis, divided by nothing (0), the length (1) or its root "
             "(2).",
      .operands = {"x"},
      .attrs = {axis, divides, {"inverse", AttrKind::kFlag}},
      .dtypes = kComplex,
      .type =
          [](const TypeCall& call) {
            axis_of(call.attrs, call.shape(0));
            return Types{call.types[0]};
          },
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        auto options = fourier_options(call);
                        options.inverse = call.attrs.flag("inverse");
                        kernels::cpu::prepare_fourier(call, options);
                      }},
      .transpose =
          [](Operands, int, const Tensor& ct, const Attrs& attrs) {
            return run(op<"fourier">(), {&ct},
                       {attrs.value("axis"), attrs.value("divides"), !attrs.flag("inverse")});
          },
      .batch = batching::along_axis,
      .samples = {.calls = {{{"[8]"}, last},
                            {{"[3,4,2]"},
                             {{"axis", int64_t{1}}, {"divides", int64_t{1}}, {"inverse", true}}},
                            {{"[2,15]"},
                             {{"axis", int64_t{1}}, {"divides", int64_t{2}}, {"inverse", false}}},
                            {{"[37]"}, last},
                            {{"[2,1]"}, last},
                            {{"[0,4]"}, last}},
                  .ulp = 32},
      .errors = {{{"complex64[3]"},
                  "axis 1 is outside [-1, 1)",
                  {{"axis", int64_t{1}}, {"divides", int64_t{0}}, {"inverse", false}},
                  ErrorCode::kOutOfRange}},
  });
  const auto half = [](int64_t axis, int64_t divides, bool doubles) {
    return std::vector<std::pair<std::string_view, AttrValue>>{
        {"axis", axis}, {"divides", divides}, {"doubles", doubles}};
  };
  r.define({
      .name = "fourier_of_real",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "The first half of the spectrum of real x; with `doubles` twice what stands for two.",
      .operands = {"x"},
      .attrs = {axis, divides, {"doubles", AttrKind::kFlag}},
      .dtypes = DTypeSet(kFloat32) | kFloat64,
      .type = of_real_type,
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        auto options = fourier_options(call);
                        options.doubles = call.attrs.flag("doubles");
                        kernels::cpu::prepare_fourier_of_real(call, options);
                      }},
      .transpose =
          [](Operands in, int, const Tensor& ct, const Attrs& attrs) {
            const int along = axis_of(attrs, in[0].shape());
            return to_real(ct, along, in[0].shape()[along], attrs.integer("divides"),
                           attrs.flag("doubles"));
          },
      .batch = batching::along_axis,
      .samples = {.calls = {{{"[8]"}, half(-1, 0, false)},
                            {{"[3,5,2]"}, half(1, 1, true)},
                            {{"[2,6]"}, half(1, 2, false)},
                            {{"[2,1]"}, half(1, 0, false)}},
                  .ulp = 32},
      .errors = {{{"float32[2,0]"}, "axis 1 has no element to transform", half(1, 0, false)}},
  });
  const auto whole = [half](int64_t axis, int64_t n, int64_t divides, bool doubles) {
    auto out = half(axis, divides, doubles);
    out.emplace_back("n", n);
    return out;
  };
  r.define({
      .name = "fourier_to_real",
      .space = "internal",
      .kind = Kind::kLinear,
      .doc = "The n real numbers whose spectrum has the first half x, times their number; without "
             "`doubles` half of what stands for two.",
      .operands = {"x"},
      .attrs = {axis, {"n", AttrKind::kInt}, divides, {"doubles", AttrKind::kFlag}},
      .dtypes = kComplex,
      .type = to_real_type,
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        auto options = fourier_options(call);
                        options.doubles = call.attrs.flag("doubles");
                        kernels::cpu::prepare_fourier_to_real(call, options);
                      }},
      .transpose =
          [](Operands in, int, const Tensor& ct, const Attrs& attrs) {
            return of_real(ct, axis_of(attrs, in[0].shape()), attrs.integer("divides"),
                           attrs.flag("doubles"));
          },
      .batch = batching::along_axis,
      .samples = {.calls = {{{"[5]"}, whole(-1, 8, 0, true)},
                            {{"[3,3,2]"}, whole(1, 5, 1, false)},
                            {{"[2,4]"}, whole(1, 6, 2, true)},
                            {{"[2,1]"}, whole(1, 1, 0, true)}},
                  .ulp = 32},
      .errors = {{{"complex64[4]"},
                  "8 real numbers have a half spectrum of 5 along axis 0",
                  whole(0, 8, 0, true)}},
  });
}

// --- sizes and norms ---

// The divisor of the result: 0 none, 1 the length, 2 its root.
int64_t divides_of(const Attrs& attrs, bool inverse) {
  const std::string& norm = attrs.text("norm");
  ETUDE_REQUIRE(norm == "backward" || norm == "ortho" || norm == "forward",
                "norm is \"{}\", but must be backward, ortho or forward", norm);
  if (norm == "ortho") return 2;
  return (norm == "backward") == inverse ? 1 : 0;
}

// x with n elements along an axis.
Tensor resized(const Tensor& x, int axis, int64_t n) {
  return run(op<"fit_axis">(), {&x}, {axis, n});
}

Tensor as_complex(const Tensor& x) {
  if (is_complex(x.dtype())) return x;
  return internal::cast(x, x.dtype() == kFloat32 ? kComplex64 : kComplex128);
}

// Axes and lengths of a transform, in the order in which they were given.
struct Grid {
  Ints axes, sizes;
  bool fits = true;  // the sizes of x are unchanged

  Tensor fit(const Tensor& x, int axis, int64_t n) const { return fits ? x : resized(x, axis, n); }
};

// `n` and `axis` are one number each, or `s` and `axes` lists. The last axis of a half spectrum has
// 2 (size - 1) elements by default.
Grid grid_of(const Attrs& attrs, const Tensor& x, bool list, bool halves) {
  Grid grid;
  const auto by_default = [&](int64_t axis, bool last) {
    const int64_t size = x.shape()[static_cast<int>(axis)];
    return last && halves ? 2 * (size - 1) : size;
  };
  if (!list) {
    grid.axes = {normalize_axis(attrs.integer("axis"), x.rank())};
    grid.fits = !attrs.has("n");
    grid.sizes = {attrs.has("n") ? attrs.integer("n") : by_default(grid.axes[0], true)};
    return grid;
  }
  if (attrs.has("axes")) {
    for (const int axis : normalize_axes(attrs.ints("axes"), x.rank())) grid.axes.push_back(axis);
  } else {
    const auto count = attrs.has("s") ? static_cast<int64_t>(attrs.ints("s").size()) : x.rank();
    ETUDE_REQUIRE(count <= x.rank(), "s has {} sizes, but operand 'x' has {} axes", count,
                  x.rank());
    for (int64_t axis = x.rank() - count; axis < x.rank(); ++axis) grid.axes.push_back(axis);
  }
  ETUDE_REQUIRE(!grid.axes.empty(), "the list of axes is empty. Name one axis at least");
  if (attrs.has("s")) {
    grid.fits = false;
    grid.sizes = attrs.ints("s");
    ETUDE_REQUIRE(grid.sizes.size() == grid.axes.size(), "s has {} sizes for {} axes",
                  grid.sizes.size(), grid.axes.size());
    return grid;
  }
  for (std::size_t i = 0; i < grid.axes.size(); ++i) {
    grid.sizes.push_back(by_default(grid.axes[i], i + 1 == grid.axes.size()));
  }
  return grid;
}

enum class Form { kComplex, kOfReal, kToReal };

// Transforms along all axes of the grid except the last axis of a half spectrum.
Tensor along_axes(Tensor x, const Grid& grid, std::size_t count, int64_t divides, bool inverse) {
  for (std::size_t i = count; i-- > 0;) {
    x = grid.fit(x, static_cast<int>(grid.axes[i]), grid.sizes[i]);
    x = run(op<"fourier">(), {&x}, {grid.axes[i], divides, inverse});
  }
  return x;
}

Tensor real_only(const Tensor& x, std::string_view name) {
  ETUDE_REQUIRE(!is_complex(x.dtype()),
                "operand 'x' is {}, but {} takes real numbers. Use real(x), or the complex "
                "transform",
                etude::name(x.dtype()), name);
  return x;
}

template <Form form, bool inverse, bool list>
Values lower_transform(Operands in, const Attrs& attrs) {
  const int64_t divides = divides_of(attrs, inverse);
  const Grid grid = grid_of(attrs, in[0], list, form == Form::kToReal);
  const std::size_t last = grid.axes.size() - 1;
  const int axis = static_cast<int>(grid.axes[last]);
  if (form == Form::kComplex) {
    return {along_axes(as_complex(in[0]), grid, last + 1, divides, inverse)};
  }
  if (form == Form::kOfReal) {
    const Tensor x = grid.fit(real_only(in[0], "this transform"), axis, grid.sizes[last]);
    return {along_axes(of_real(x, axis, divides, false), grid, last, divides, inverse)};
  }
  Tensor x = along_axes(as_complex(in[0]), grid, last, divides, inverse);
  const int64_t n = grid.sizes[last];
  ETUDE_REQUIRE(n >= 1,
                "a transform to {} elements along axis {} of {}. It needs 1 or more: give n", n,
                axis, in[0].shape().to_string());
  x = grid.fit(x, axis, n / 2 + 1);
  return {to_real(x, axis, n, divides, true)};
}

// The spectrum of numbers that are real and symmetric is real: a transform to real numbers whose
// exponent has the other sign, and its inverse.
Values lower_hfft(Operands in, const Attrs& attrs) {
  const Tensor x = internal::conj(as_complex(in[0]));
  const Grid grid = grid_of(attrs, x, false, true);
  const int axis = static_cast<int>(grid.axes[0]);
  const int64_t n = grid.sizes[0];
  ETUDE_REQUIRE(n >= 1,
                "a transform to {} elements along axis {} of {}. It needs 1 or more: give n", n,
                axis, x.shape().to_string());
  return {to_real(grid.fit(x, axis, n / 2 + 1), axis, n, divides_of(attrs, false), true)};
}
Values lower_ihfft(Operands in, const Attrs& attrs) {
  const Grid grid = grid_of(attrs, in[0], false, false);
  const int axis = static_cast<int>(grid.axes[0]);
  const Tensor x = grid.fit(real_only(in[0], "ihfft"), axis, grid.sizes[0]);
  return {internal::conj(of_real(x, axis, divides_of(attrs, true), false))};
}

// --- shifts and frequencies ---

template <bool inverse>
Values lower_shift(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  Ints axes, shift;
  if (attrs.has("axes")) {
    for (const int axis : normalize_axes(attrs.ints("axes"), x.rank())) axes.push_back(axis);
  } else {
    axes.resize(static_cast<std::size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (axes.empty()) return {x};
  for (const int64_t axis : axes) {
    const int64_t half = x.shape()[static_cast<int>(axis)] / 2;
    shift.push_back(inverse ? -half : half);
  }
  return {roll(x, shift, {.axis = axes})};
}

template <bool real>
Values lower_frequencies(Operands, const Attrs& attrs) {
  const int64_t n = attrs.integer("n");
  const double d = attrs.real("d");
  ETUDE_REQUIRE(n >= 1, "n is {}, but must be 1 or more", n);
  ETUDE_REQUIRE(d != 0, "d is 0, but the distance between samples must not be");
  const DType dtype = attrs.dtype("dtype");
  const double step = 1 / (static_cast<double>(n) * d);
  const auto count = [&](int64_t from, int64_t to) {
    return run(op<"arange">(), OperandList(),
               {static_cast<double>(from), static_cast<double>(to), 1.0, dtype, none});
  };
  if (real) return {count(0, n / 2 + 1) * step};
  const std::vector<Tensor> parts = {count(0, n / 2 + n % 2), count(-(n / 2), 0)};
  return {internal::concat(parts) * step};
}

template <Form form, bool inverse, bool list>
OpDef transform(std::string_view name, std::string_view doc) {
  OpDef def{.name = name, .space = kFourierSpace, .kind = Kind::kComposition, .doc = doc};
  def.operands = {"x"};
  if (list)
    def.attrs = {{"s", AttrKind::kInts, none}, {"axes", AttrKind::kInts, none}};
  else
    def.attrs = {{"n", AttrKind::kInt, none}, {"axis", -1}};
  def.attrs.push_back({"norm", "backward"});
  def.dtypes = form == Form::kOfReal ? DTypeSet(kFloat32) | kFloat64 : kDTypes;
  def.lower = lower_transform<form, inverse, list>;
  def.samples.ulp = 64;
  const std::string ortho = "ortho";
  if (list) {
    def.samples.calls = {{{"[4,6]"}},
                         {{"[2,5,3]"}, {{"axes", Ints{0, 2}}, {"norm", ortho}}},
                         {{"[3,4]"}, {{"s", Ints{4, 4}}, {"norm", std::string("forward")}}}};
    def.errors = {
        {{"float32[3]"}, "s has 2 sizes, but operand 'x' has 1 axes", {{"s", Ints{2, 2}}}},
        {{"float32[3,3]"}, "s has 1 sizes for 2 axes", {{"s", Ints{2}}, {"axes", Ints{0, 1}}}}};
  } else {
    def.samples.calls = {{{"[6]"}},
                         {{"[3,5,2]"}, {{"axis", int64_t{1}}, {"norm", ortho}}},
                         {{"[2,4]"}, {{"n", int64_t{7}}}},
                         {{"[2,5]"}, {{"n", int64_t{4}}, {"norm", std::string("forward")}}}};
    def.errors = {{{"float32[3]"},
                   "axis 1 is outside [-1, 1)",
                   {{"axis", int64_t{1}}},
                   ErrorCode::kOutOfRange},
                  {{"float32[3]"}, "It needs 1 or more", {{"n", int64_t{0}}}}};
  }
  def.errors.push_back({{"float32[3]"},
                        "norm is \"none\", but must be backward, ortho or forward",
                        {{"norm", std::string("none")}}});
  return def;
}

OpDef hermitian(std::string_view name, std::string_view doc, DTypeSet dtypes, LowerRule lower) {
  OpDef def = transform<Form::kToReal, false, false>(name, doc);
  def.dtypes = dtypes;
  def.lower = lower;
  return def;
}

template <bool inverse>
OpDef shift(std::string_view name, std::string_view doc) {
  return {
      .name = name,
      .space = kFourierSpace,
      .kind = Kind::kComposition,
      .doc = doc,
      .operands = {"x"},
      .attrs = {{"axes", AttrKind::kInts, none}},
      .dtypes = kAnyDType,
      .lower = lower_shift<inverse>,
      .samples = {.calls = {{{"[8]"}}, {{"[4,6]"}}, {{"[3,5]"}, {{"axes", Ints{1}}}}, {{"[]"}}}},
      .errors = {{{"float32[3]"},
                  "axis 1 is outside [-1, 1)",
                  {{"axes", Ints{1}}},
                  ErrorCode::kOutOfRange}}};
}

template <bool real>
OpDef frequencies(std::string_view name, std::string_view doc) {
  return {.name = name,
          .space = kFourierSpace,
          .kind = Kind::kComposition,
          .doc = doc,
          .operands = {},
          .attrs = {{"n", AttrKind::kInt}, {"d", 1.0}, {"dtype", kFloat32}},
          .lower = lower_frequencies<real>,
          .samples = {.calls = {{{}, {{"n", int64_t{5}}}},
                                {{}, {{"n", int64_t{8}}, {"d", 0.5}, {"dtype", kFloat64}}}}},
          .errors = {{{}, "n is 0, but must be 1 or more", {{"n", int64_t{0}}}},
                     {{}, "d is 0", {{"n", int64_t{4}}, {"d", 0.0}}}}};
}

void define_functions(Registry& r) {
  r.define(transform<Form::kComplex, false, false>(
      "fft",
      "The discrete Fourier transform along an axis: y_k = sum over j of x_j exp(-2 pi i j k / n). "
      "x is cut to n elements or padded with zeros at the end. norm selects the transform that "
      "divides by n: the inverse (\"backward\") or this one (\"forward\"). With \"ortho\", both "
      "divide by sqrt(n). The time is O(n log n) for every n."));
  r.define(transform<Form::kComplex, true, false>(
      "ifft",
      "The inverse of fft: the exponent has a plus sign, and norm \"backward\" divides by n."));
  r.define(
      transform<Form::kOfReal, false, false>("rfft",
                                             "The first n / 2 + 1 elements of the fft of real x. "
                                             "The other elements are the conjugates of these."));
  r.define(transform<Form::kToReal, true, false>(
      "irfft",
      "The n real numbers whose rfft is x; n is 2 (size - 1) by default. Imaginary parts that must "
      "be 0 in an rfft are not read."));
  r.define(hermitian("hfft",
                     "The fft of a signal with conjugate symmetry: n real numbers, by default n = "
                     "2 (size - 1). x is the first half of the signal.",
                     kDTypes, lower_hfft));
  r.define(hermitian("ihfft",
                     "The inverse of hfft for real x: the first n / 2 + 1 elements of the signal.",
                     DTypeSet(kFloat32) | kFloat64, lower_ihfft));
  r.define(transform<Form::kComplex, false, true>(
      "fftn",
      "fft along each of `axes`, by default all, with the lengths s. Without axes, s applies to "
      "the last axes."));
  r.define(transform<Form::kComplex, true, true>("ifftn", "The inverse of fftn."));
  r.define(transform<Form::kOfReal, false, true>(
      "rfftn", "rfft along the last of `axes` and fft along the others."));
  r.define(transform<Form::kToReal, true, true>("irfftn", "The inverse of rfftn."));
  r.define(shift<false>(
      "fftshift", "x with frequency 0 moved to the middle of each of `axes`, by default all."));
  r.define(shift<true>("ifftshift", "The inverse of fftshift."));
  r.define(frequencies<false>("fftfreq",
                              "The frequencies of the elements of an fft of n samples. d is the "
                              "distance between samples."));
  r.define(frequencies<true>("rfftfreq",
                             "The frequencies of the elements of an rfft of n samples. d is the "
                             "distance between samples."));
}

}  // namespace

void define_fourier(Registry& r) {
  define_fit(r);
  define_transforms(r);
  define_functions(r);
}

}  // namespace etude::ops
