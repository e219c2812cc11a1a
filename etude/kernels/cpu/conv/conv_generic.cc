// SPDX-License-Identifier: Apache-2.0
// Direct sums for the dtypes other than float32, one tap after the other.
#include <algorithm>
#include <complex>
#include <type_traits>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/conv/conv.h"
#include "etude/kernels/cpu/product/multiply_add.h"

namespace etude::kernels::cpu {
namespace {

// The range of results whose window has `tap` inside an axis: begin <= i < end.
struct Range {
  int64_t begin, end;
};
Range inside(int64_t tap, int64_t stride, int64_t dilation, int64_t before, int64_t size,
             int64_t count) {
  const int64_t shift = tap * dilation - before;  // the place read by result 0
  const int64_t begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const int64_t end = size - shift <= 0 ? 0 : (size - shift + stride - 1) / stride;
  return {std::min(begin, count), std::clamp(end, std::min(begin, count), count)};
}

// Calls body(x, y, filter) with the offsets of every pair of pixels that a tap joins, for one image
// and one row of the filter.
template <class F>
void for_each_pair(const ConvPlan& p, int64_t kh, int64_t kw, F&& body) {
  const Range rows = inside(kh, p.sh, p.dh, p.top, p.h, p.oh);
  const Range columns = inside(kw, p.sw, p.dw, p.left, p.w, p.ow);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const int64_t y = r * p.sh + kh * p.dh - p.top;
    for (int64_t s = columns.begin; s < columns.end; ++s) {
      const int64_t x = s * p.sw + kw * p.dw - p.left;
      body((y * p.w + x) * p.c, (r * p.ow + s) * p.o);
    }
  }
}

template <class T>
void forward_pixel(const ConvPlan& p, T* y, const T* x, const T* filter) {
  const int64_t inputs = p.group_inputs(), outputs = p.group_outputs();
  for (int64_t g = 0; g < p.groups; ++g) {
    for (int64_t i = 0; i < inputs; ++i) {
      const T a = x[g * inputs + i];
      const T* f = filter + i * p.o + g * outputs;
      T* to = y + g * outputs;
      for (int64_t j = 0; j < outputs; ++j) to[j] = multiply_add(a, f[j], to[j]);
    }
  }
}

template <class T>
void input_pixel(const ConvPlan& p, T* x, const T* y, const T* filter) {
  const int64_t inputs = p.group_inputs(), outputs = p.group_outputs();
  for (int64_t g = 0; g < p.groups; ++g) {
    for (int64_t i = 0; i < inputs; ++i) {
      const T* f = filter + i * p.o + g * outputs;
      T sum = x[g * inputs + i];
      for (int64_t j = 0; j < outputs; ++j) sum = multiply_add(y[g * outputs + j], f[j], sum);
      x[g * inputs + i] = sum;
    }
  }
}

template <class T>
void filter_pixel(const ConvPlan& p, T* filter, const T* x, const T* y) {
  const int64_t inputs = p.group_inputs(), outputs = p.group_outputs();
  for (int64_t g = 0; g < p.groups; ++g) {
    for (int64_t i = 0; i < inputs; ++i) {
      const T a = x[g * inputs + i];
      T* f = filter + i * p.o + g * outputs;
      for (int64_t j = 0; j < outputs; ++j) f[j] = multiply_add(a, y[g * outputs + j], f[j]);
    }
  }
}

template <class T>
void run_forward(const ConvPlan& p, T* y, const T* x, const T* filter, const T* bias) {
  for (int64_t i = 0; i < p.result(); ++i) y[i] = bias != nullptr ? bias[i % p.o] : T{};
  for (int64_t tap = 0; tap < p.kh * p.kw; ++tap) {
    const T* f = filter + tap * p.group_inputs() * p.o;
    for_each_pair(p, tap / p.kw, tap % p.kw,
                  [&](int64_t a, int64_t b) { forward_pixel(p, y + b, x + a, f); });
  }
}

template <class T>
void run_input_gradient(const ConvPlan& p, T* x, const T* y, const T* filter) {
  std::fill_n(x, p.image(), T{});
  for (int64_t tap = 0; tap < p.kh * p.kw; ++tap) {
    const T* f = filter + tap * p.group_inputs() * p.o;
    for_each_pair(p, tap / p.kw, tap % p.kw,
                  [&](int64_t a, int64_t b) { input_pixel(p, x + a, y + b, f); });
  }
}

// All images, one tap of the filter.
template <class T>
void run_filter_gradient(const ConvPlan& p, T* filter, const T* x, const T* y, int64_t tap) {
  T* f = filter + tap * p.group_inputs() * p.o;
  std::fill_n(f, p.group_inputs() * p.o, T{});
  for (int64_t n = 0; n < p.n; ++n) {
    for_each_pair(p, tap / p.kw, tap % p.kw, [&](int64_t a, int64_t b) {
      filter_pixel(p, f, x + n * p.image() + a, y + n * p.result() + b);
    });
  }
}

template <class T>
void run(const ConvPlan& p, ConvPass pass, void* out, const void* const* in) {
  const double us = 1e-3 * static_cast<double>(p.n * p.oh * p.ow) * static_cast<double>(p.filter());
  T* to = static_cast<T*>(out);
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  if (pass == ConvPass::kFilterGradient) {
    return parallel_for(p.kh * p.kw, us,
                        [&](int64_t tap) { run_filter_gradient(p, to, a, b, tap); });
  }
  parallel_for(p.n, us, [&](int64_t n) {
    if (pass == ConvPass::kForward) {
      run_forward(p, to + n * p.result(), a + n * p.image(), b, static_cast<const T*>(in[2]));
    } else {
      run_input_gradient(p, to + n * p.image(), a + n * p.result(), b);
    }
  });
}

}  // namespace

void conv2d_generic(const ConvPlan& p, ConvPass pass, DType dtype, void* out,
                    const void* const* in) {
  visit_wrapping(dtype, [&]<class T>() { run<T>(p, pass, out, in); });
}

}  // namespace etude::kernels::cpu
