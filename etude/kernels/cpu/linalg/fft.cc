// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/linalg/fft.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/axis_view.h"
#include "etude/kernels/cpu/linalg/fft_layout.h"
#include "etude/kernels/cpu/linalg/fft_plan.h"
#include "etude/kernels/cpu/thread_scratch.h"

namespace etude::kernels::cpu {
namespace {

using fourier::Complex;
using fourier::kWidth;
using fourier::Parts;
using fourier::parts_to_rows;
using fourier::Plan;
using fourier::rows_to_parts;

constexpr int64_t kFewest = 1 << 9;     // from this length on a transform is two passes
constexpr double kElementsPerUs = 250;  // with a few passes each
enum Purpose { kColumns = 64, kMatrix, kHalf };

template <class T>
struct FftParams : KernelParams {
  AxisView view;     // of the complex side
  int64_t n = 0;     // length of the transform
  int64_t half = 0;  // elements of a half spectrum
  FourierOptions options;
  T scale = 1;
  std::unique_ptr<Plan<T>> plan;
  // Of a transform to or from real numbers of even length: roots of order n for half of them.
  std::vector<T> re, im;
  // Two passes: n = rows * columns; re and im have the roots between them, by block of columns.
  int64_t rows = 0, columns = 0;
  std::unique_ptr<Plan<T>> by_columns;
  // A long transform to or from real numbers: two passes of half the length.
  std::unique_ptr<FftParams> by_half;
};

// Work memory for up to kWidth transforms of a plan, and the plan's own.
template <class T>
struct Buffers {
  Buffers(const Plan<T>& plan, int64_t rows) {
    const int64_t own = rows * kWidth, work = plan.work(kWidth);
    T* at = thread_scratch<T, kColumns>(2 * (own + work));
    x = {at, at + own};
    more = {at + 2 * own, at + 2 * own + work};
  }
  Parts<T> x, more;
};

// Up to kWidth adjacent transforms: the start of each, and their step.
struct Columns {
  int64_t width = 0;
  int64_t start[kWidth];
  int64_t step = 1;
  bool side_by_side = true;  // start[c] is start[0] + c

  // Transforms [first, first + width) of the axis of `view`, as if it had `size` elements.
  Columns(const AxisView& view, int64_t size, int64_t first)
      : width(std::min(kWidth, view.outer * view.inner - first)), step(view.inner) {
    for (int64_t c = 0; c < width; ++c) {
      const int64_t i = first + c;
      start[c] = i / view.inner * size * view.inner + i % view.inner;
      side_by_side = side_by_side && start[c] == start[0] + c;
    }
  }
  bool is_full() const { return side_by_side && width == kWidth && step > 1; }
};

// Returns the place of the result: in x or in `more`.
template <class T>
Parts<T> run_plan(const Plan<T>& plan, Parts<T> x, Parts<T> more, int64_t width, bool inverse) {
  if (inverse) std::swap(x.re, x.im), std::swap(more.re, more.im);
  const Parts<T> y = plan.run_to_either(x, more, width);
  return inverse ? Parts<T>{y.im, y.re} : y;
}

// Calls body(first) for each block of kWidth transforms.
template <class T, class F>
void each_block(const FftParams<T>& p, const F& body) {
  const int64_t count = p.view.outer * p.view.inner, blocks = (count + kWidth - 1) / kWidth;
  const double us = static_cast<double>(count * p.n) / kElementsPerUs;
  const int64_t step = std::max<int64_t>(1, (1 << 13) / std::max<int64_t>(1, p.n * kWidth));
  parallel_for((blocks + step - 1) / step, us, [&](int64_t chunk) {
    for (int64_t b = chunk * step; b < std::min(blocks, (chunk + 1) * step); ++b) body(b * kWidth);
  });
}

// Calls body(i) for each row, side by side; a single one may itself be split.
template <class T, class F>
void each_row(const FftParams<T>& p, const F& body) {
  if (p.view.outer == 1) return body(0);
  parallel_for(p.view.outer, static_cast<double>(p.view.outer * p.n) / kElementsPerUs, body);
}

// --- complex ---

// A long transform of adjacent numbers as a matrix [rows, columns]: transforms of columns, roots,
// and transforms of rows, whose results are in columns.
template <class T>
void run_matrix(const FftParams<T>& p, Complex<T>* out, const Complex<T>* in) {
  const int64_t rows = p.rows, columns = p.columns;
  auto* middle = thread_scratch<Complex<T>, kMatrix>(p.n);
  const double us = static_cast<double>(p.n) / kElementsPerUs;
  const bool inverse = p.options.inverse;
  parallel_for(columns / kWidth, us, [&](int64_t block) {
    const Buffers<T> b(*p.by_columns, rows);
    const int64_t first = block * kWidth, roots = block * rows * kWidth;
    const Parts<T> done = p.by_columns->run_from({in + first, columns}, inverse, b.x, b.more);
    fourier::give_turned<T>({done.re, done.im}, {p.re.data() + roots, p.im.data() + roots}, rows,
                            inverse, {middle + first, columns});
  });
  parallel_for(rows / kWidth, us, [&](int64_t block) {
    const Buffers<T> b(*p.plan, columns);
    const int64_t first = block * kWidth;
    int64_t start[kWidth];
    for (int64_t c = 0; c < kWidth; ++c) start[c] = (first + c) * columns;
    rows_to_parts(middle, start, kWidth, columns, inverse ? Parts<T>{b.x.im, b.x.re} : b.x);
    p.plan->run_to({out + first, rows}, p.scale, inverse, b.x, b.more);
  });
}

// Elements [0, n) of the transforms, from memory into parts, and back times a factor.
template <class T>
void load(const Columns& at, int64_t n, const Complex<T>* in, Parts<T> x) {
  const int64_t w = at.width;
  if (at.step == 1) return rows_to_parts(in, at.start, w, n, x);
  for (int64_t k = 0; k < n; ++k) {
    T *re = x.re + k * w, *im = x.im + k * w;
    if (at.side_by_side) {
      const Complex<T>* from = in + at.start[0] + k * at.step;
      for (int64_t c = 0; c < w; ++c) re[c] = from[c].real(), im[c] = from[c].imag();
    } else {
      for (int64_t c = 0; c < w; ++c) {
        const Complex<T> z = in[at.start[c] + k * at.step];
        re[c] = z.real(), im[c] = z.imag();
      }
    }
  }
}
template <class T>
void store(const Columns& at, int64_t n, Parts<T> x, T scale, Complex<T>* out) {
  const int64_t w = at.width;
  if (at.step == 1) return parts_to_rows(x, scale, at.start, w, n, out);
  for (int64_t k = 0; k < n; ++k) {
    const T *re = x.re + k * w, *im = x.im + k * w;
    if (at.side_by_side) {
      Complex<T>* to = out + at.start[0] + k * at.step;
      for (int64_t c = 0; c < w; ++c) to[c] = {re[c] * scale, im[c] * scale};
    } else {
      for (int64_t c = 0; c < w; ++c) {
        out[at.start[c] + k * at.step] = {re[c] * scale, im[c] * scale};
      }
    }
  }
}

template <class T>
bool run_complex(const KernelCall& call) {
  const auto& p = *static_cast<const FftParams<T>*>(call.params);
  const auto* in = static_cast<const Complex<T>*>(call.in[0]);
  auto* out = static_cast<Complex<T>*>(call.out[0]);
  if (p.rows > 0) {
    each_row(p, [&](int64_t i) { run_matrix(p, out + i * p.n, in + i * p.n); });
    return true;
  }
  each_block(p, [&](int64_t first) {
    const Columns at(p.view, p.n, first);
    const Buffers<T> b(*p.plan, p.n);
    const bool inverse = p.options.inverse;
    if (at.is_full()) {
      const int64_t start = at.start[0];
      p.plan->run_between({in + start, at.step}, {out + start, at.step}, p.scale, inverse, b.x,
                          b.more);
      return;
    }
    load(at, p.n, in, b.x);
    const Parts<T> done = run_plan(*p.plan, b.x, b.more, at.width, inverse);
    store(at, p.n, done, p.scale, out);
  });
  return true;
}

// --- real ---

// Whether element k of a half spectrum of n represents two elements.
bool is_double(int64_t k, int64_t n) { return k > 0 && 2 * k < n; }

// Even n: neighbours are real and imaginary parts of n / 2 numbers with the transform z. The
// spectrum is e - i w o, where e and o are the even and odd halves of z.
template <class T>
Complex<T> joined(Complex<T> z, Complex<T> mirror, T wr, T wi) {
  const T er = z.real() + mirror.real(), ei = z.imag() - mirror.imag();
  const T dr = z.real() - mirror.real(), di = z.imag() + mirror.imag();
  return {T(0.5) * (er + (wr * di + wi * dr)), T(0.5) * (ei - (wr * dr - wi * di))};
}
// The inverse of that, times 2.
template <class T>
Complex<T> halved(Complex<T> x, Complex<T> mirror, T wr, T wi) {
  const T er = x.real() + mirror.real(), ei = x.imag() - mirror.imag();
  const T dr = x.real() - mirror.real(), di = x.imag() + mirror.imag();
  return {er - (wr * di - wi * dr), ei + (wr * dr + wi * di)};
}

// Element k of a half spectrum, weighted by `doubles`.
template <class T>
Complex<T> element(const FftParams<T>& p, Complex<T> x, int64_t k) {
  if (!is_double(k, p.n)) return {x.real(), 0};
  return p.options.doubles ? x : Complex<T>(T(0.5) * x.real(), T(0.5) * x.imag());
}

// One row of real numbers, whose neighbours are complex numbers as they lie.
template <class T>
void long_of_real(const FftParams<T>& p, Complex<T>* out, const T* in) {
  const int64_t half = p.n / 2;
  auto* z = thread_scratch<Complex<T>, kHalf>(half);
  run_matrix(*p.by_half, z, reinterpret_cast<const Complex<T>*>(in));
  for (int64_t k = 0; k <= half; ++k) {
    const auto at = static_cast<std::size_t>(k);
    const T scale = p.options.doubles && is_double(k, p.n) ? 2 * p.scale : p.scale;
    const bool is_end = k == 0 || k == half;
    const Complex<T> y = joined(z[is_end ? 0 : k], z[is_end ? 0 : half - k], p.re[at], p.im[at]);
    out[k] = {y.real() * scale, y.imag() * scale};
  }
}
template <class T>
void long_to_real(const FftParams<T>& p, T* out, const Complex<T>* in) {
  const int64_t half = p.n / 2;
  auto* z = thread_scratch<Complex<T>, kHalf>(half);
  for (int64_t k = 0; k < half; ++k) {
    const auto at = static_cast<std::size_t>(k);
    z[k] = halved(element(p, in[k], k), element(p, in[half - k], half - k), p.re[at], p.im[at]);
  }
  run_matrix(*p.by_half, reinterpret_cast<Complex<T>*>(out), z);
}

template <class T>
bool run_of_real(const KernelCall& call) {
  const auto& p = *static_cast<const FftParams<T>*>(call.params);
  const T* in = static_cast<const T*>(call.in[0]);
  auto* out = static_cast<Complex<T>*>(call.out[0]);
  if (p.by_half != nullptr) {
    each_row(p, [&](int64_t i) { long_of_real(p, out + i * p.half, in + i * p.n); });
    return true;
  }
  const bool even = p.n % 2 == 0;
  const int64_t length = p.plan->length();
  each_block(p, [&](int64_t first) {
    const Columns from(p.view, p.n, first), to(p.view, p.half, first);
    const Buffers<T> b(*p.plan, length);
    const int64_t w = from.width;
    for (int64_t k = 0; k < length; ++k) {
      for (int64_t c = 0; c < w; ++c) {
        const T* x = in + from.start[c] + (even ? 2 * k : k) * from.step;
        b.x.re[k * w + c] = x[0];
        b.x.im[k * w + c] = even ? x[from.step] : T(0);
      }
    }
    const Parts<T> done = run_plan(*p.plan, b.x, b.more, w, false);
    for (int64_t k = 0; k < p.half; ++k) {
      const T scale = p.options.doubles && is_double(k, p.n) ? 2 * p.scale : p.scale;
      const int64_t a = (k < length ? k : 0) * w, mirror = (k == 0 ? 0 : length - k) * w;
      const T wr = p.re[static_cast<std::size_t>(k)], wi = p.im[static_cast<std::size_t>(k)];
      for (int64_t c = 0; c < w; ++c) {
        Complex<T> y(done.re[a + c], done.im[a + c]);
        if (even) y = joined(y, {done.re[mirror + c], done.im[mirror + c]}, wr, wi);
        out[to.start[c] + k * to.step] = {y.real() * scale, y.imag() * scale};
      }
    }
  });
  return true;
}

template <class T>
bool run_to_real(const KernelCall& call) {
  const auto& p = *static_cast<const FftParams<T>*>(call.params);
  const auto* in = static_cast<const Complex<T>*>(call.in[0]);
  T* out = static_cast<T*>(call.out[0]);
  if (p.by_half != nullptr) {
    each_row(p, [&](int64_t i) { long_to_real(p, out + i * p.n, in + i * p.half); });
    return true;
  }
  const bool even = p.n % 2 == 0;
  const int64_t length = p.plan->length();
  each_block(p, [&](int64_t first) {
    const Columns from(p.view, p.half, first), to(p.view, p.n, first);
    const Buffers<T> b(*p.plan, length);
    const int64_t w = from.width;
    const auto given = [&](int64_t k, int64_t c) {
      return element(p, in[from.start[c] + k * from.step], k);
    };
    for (int64_t k = 0; k < length; ++k) {
      const bool upper = !even && 2 * k > p.n;
      const T wr = p.re[static_cast<std::size_t>(even ? k : 0)],
              wi = p.im[static_cast<std::size_t>(even ? k : 0)];
      for (int64_t c = 0; c < w; ++c) {
        Complex<T> y = given(upper ? p.n - k : k, c);
        if (upper) y = {y.real(), -y.imag()};
        if (even) y = halved(y, given(length - k, c), wr, wi);
        b.x.re[k * w + c] = y.real();
        b.x.im[k * w + c] = y.imag();
      }
    }
    const Parts<T> done = run_plan(*p.plan, b.x, b.more, w, true);
    for (int64_t k = 0; k < length; ++k) {
      for (int64_t c = 0; c < w; ++c) {
        T* y = out + to.start[c] + (even ? 2 * k : k) * to.step;
        y[0] = done.re[k * w + c] * p.scale;
        if (even) y[to.step] = done.im[k * w + c] * p.scale;
      }
    }
  });
  return true;
}

// --- ready to run ---

template <class T>
etude::internal::RefPtr<FftParams<T>> params_of(const Shape& complex_side, int64_t n,
                                                const FourierOptions& options) {
  auto p = etude::internal::make_ref<FftParams<T>>();
  p->view = axis_view(complex_side, options.axis);
  p->n = n;
  p->half = n / 2 + 1;
  p->options = options;
  const double size = static_cast<double>(std::max<int64_t>(n, 1));
  p->scale = static_cast<T>(options.divides == 0   ? 1.0
                            : options.divides == 1 ? 1 / size
                                                   : 1 / std::sqrt(size));
  return p;
}

// Factors n into a matrix with both sides multiples of kWidth; false if there is none.
template <class T>
bool split_matrix(FftParams<T>& p) {
  if (p.n < kFewest || p.view.inner != 1 || fourier::largest_prime(p.n) > fourier::kLargestRadix)
    return false;
  int64_t rows = 0;
  for (int64_t r = kWidth; r * r <= p.n; r += kWidth) {
    if (p.n % r == 0 && p.n / r % kWidth == 0) rows = r;
  }
  if (rows == 0 || p.n / rows > 64 * rows) return false;
  p.rows = rows;
  p.columns = p.n / rows;
  p.by_columns = std::make_unique<Plan<T>>(p.rows);
  p.plan = std::make_unique<Plan<T>>(p.columns);
  for (int64_t block = 0; block < p.columns / kWidth; ++block) {
    for (int64_t i = 0; i < rows * kWidth; ++i) {
      double re, im;
      fourier::root(i / kWidth * (block * kWidth + i % kWidth), p.n, &re, &im);
      p.re.push_back(static_cast<T>(re));
      p.im.push_back(static_cast<T>(im));
    }
  }
  return true;
}

// The transform of half the length, if that is even, and the roots that join the halves.
template <class T>
void plan_real(FftParams<T>& p, bool to_real) {
  if (p.n % 2 == 0 && p.view.inner == 1) {
    auto whole = std::make_unique<FftParams<T>>();
    whole->n = p.n / 2;
    whole->options.inverse = to_real;
    if (to_real) whole->scale = p.scale;
    if (split_matrix(*whole)) p.by_half = std::move(whole);
  }
  if (p.by_half == nullptr) p.plan = std::make_unique<Plan<T>>(p.n % 2 == 0 ? p.n / 2 : p.n);
  for (int64_t k = 0; k < p.half; ++k) {
    double re, im;
    fourier::root(k, std::max<int64_t>(p.n, 1), &re, &im);
    p.re.push_back(static_cast<T>(re));
    p.im.push_back(static_cast<T>(im));
  }
}

// An axis of any size can lie in a tensor without elements, for which no roots are made.
struct NoParams : KernelParams {};
bool set_empty(const PrepareCall& call) {
  if (call.shape(0).count() > 0) return false;
  call.set([](const KernelCall&) { return true; }, etude::internal::make_ref<NoParams>());
  return true;
}

template <class T>
void prepare_complex(const PrepareCall& call, const FourierOptions& options) {
  if (set_empty(call)) return;
  auto p = params_of<T>(call.shape(0), call.shape(0)[options.axis], options);
  if (!split_matrix(*p)) p->plan = std::make_unique<Plan<T>>(p->n);
  call.set(run_complex<T>, p);
}

template <class T>
void prepare_real(const PrepareCall& call, const FourierOptions& options, bool to_real) {
  if (set_empty(call)) return;
  const Shape& real = to_real ? call.out.results[0]->shape() : call.shape(0);
  auto p = params_of<T>(real, real[options.axis], options);
  plan_real(*p, to_real);
  call.set(to_real ? run_to_real<T> : run_of_real<T>, p);
}

// --- sizes ---

struct FitParams : KernelParams {
  int64_t outer = 0, from = 0, to = 0;  // bytes along the axis
};

bool run_fit(const KernelCall& call) {
  const auto& p = *static_cast<const FitParams*>(call.params);
  const auto kept = static_cast<std::size_t>(std::min(p.from, p.to));
  for (int64_t i = 0; i < p.outer; ++i) {
    char* to = static_cast<char*>(call.out[0]) + i * p.to;
    if (kept > 0) std::memcpy(to, static_cast<const char*>(call.in[0]) + i * p.from, kept);
    std::memset(to + kept, 0, static_cast<std::size_t>(p.to) - kept);
  }
  return true;
}

bool is_single(DType dtype) { return real_dtype(dtype) == kFloat32; }

}  // namespace

void prepare_fourier(const PrepareCall& call, const FourierOptions& options) {
  is_single(call.dtype(0)) ? prepare_complex<float>(call, options)
                           : prepare_complex<double>(call, options);
}

void prepare_fourier_of_real(const PrepareCall& call, const FourierOptions& options) {
  is_single(call.dtype(0)) ? prepare_real<float>(call, options, false)
                           : prepare_real<double>(call, options, false);
}

void prepare_fourier_to_real(const PrepareCall& call, const FourierOptions& options) {
  is_single(call.dtype(0)) ? prepare_real<float>(call, options, true)
                           : prepare_real<double>(call, options, true);
}

void prepare_fit(const PrepareCall& call, int axis) {
  const Shape& result = call.out.results[0]->shape();
  const AxisView from = axis_view(call.shape(0), axis), to = axis_view(result, axis);
  if (from.size == to.size) return call.view(0);
  const int64_t bytes = itemsize(call.dtype(0)) * from.inner;
  auto p = etude::internal::make_ref<FitParams>();
  p->outer = from.outer;
  p->from = from.size * bytes;
  p->to = to.size * bytes;
  call.set(run_fit, p);
}

}  // namespace etude::kernels::cpu
