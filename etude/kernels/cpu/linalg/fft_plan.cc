// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/linalg/fft_plan.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "etude/kernels/cpu/simd/math_table.h"

namespace etude::kernels::cpu::fourier {

// One pass over groups of `radix` elements; see fft_pass.inc.
template <class T>
struct PassRun {
  int64_t radix, groups, s;
  const T *in_re, *in_im;
  T *out_re, *out_im;
  const T *tw_re, *tw_im, *roots_re, *roots_im;
};

}  // namespace etude::kernels::cpu::fourier

#define ISA_NAMESPACE etude::kernels::cpu::fourier
#define ISA_PRELUDE "etude/kernels/cpu/simd/vec.inc"
#define ISA_SOURCE "etude/kernels/cpu/linalg/fft_pass.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu::fourier {
namespace {

// The code of the best instruction set of this machine.
template <class T>
struct Code {
  void (*pass)(const PassRun<T>&);
  void (*multiply)(T*, T*, const T*, const T*, int64_t, int64_t);
  void (*first)(const PassRun<T>&, const T*, int64_t, bool);
  void (*last)(const PassRun<T>&, T, T*, int64_t, bool);
  void (*take)(const T*, int64_t, int64_t, T*, T*);
  void (*give)(const T*, const T*, T, int64_t, T*, int64_t);
  void (*give_turned)(const T*, const T*, const T*, const T*, int64_t, T*, int64_t, bool);
};

template <class T>
const Code<T>& code() {
  static const Code<T> chosen{
      ETUDE_OF_BEST_ISA(fourier, pass<T>),       ETUDE_OF_BEST_ISA(fourier, multiply<T>),
      ETUDE_OF_BEST_ISA(fourier, first<T>),      ETUDE_OF_BEST_ISA(fourier, last<T>),
      ETUDE_OF_BEST_ISA(fourier, take<T>),       ETUDE_OF_BEST_ISA(fourier, give<T>),
      ETUDE_OF_BEST_ISA(fourier, give_turned<T>)};
  return chosen;
}

template <class T>
PassRun<T> run_of(const Pass<T>& p, int64_t s, Parts<T> from, Parts<T> to) {
  return {p.radix, p.groups,    s,           from.re,           from.im,          to.re,
          to.im,   p.re.data(), p.im.data(), p.roots_re.data(), p.roots_im.data()};
}

// Whether a pass of a plan has a form that reads or writes neighbours.
template <class T>
bool has_wide_form(const Pass<T>& p) {
  return p.radix == 4 || p.radix == 8;
}

// A complex number is two numbers in memory.
template <class T>
const T* numbers(const Complex<T>* z) {
  return reinterpret_cast<const T*>(z);
}
template <class T>
T* numbers(Complex<T>* z) {
  return reinterpret_cast<T*>(z);
}
template <class T>
Parts<T> exchanged(Parts<T> x, bool inverse) {
  return inverse ? Parts<T>{x.im, x.re} : x;
}

template <class T>
void fill_roots(int64_t count, int64_t n, const auto& exponent, std::vector<T>& re,
                std::vector<T>& im) {
  for (int64_t i = 0; i < count; ++i) {
    double x, y;
    root(exponent(i), n, &x, &y);
    re.push_back(static_cast<T>(x));
    im.push_back(static_cast<T>(y));
  }
}

// Radices in the order of the passes; those without code of their own first, where s is small.
std::vector<int64_t> radices(int64_t n) {
  std::vector<int64_t> out;
  int64_t twos = 0;
  while (n % 2 == 0) ++twos, n /= 2;
  // Two passes of 4 rather than one of 8 and one of 2.
  const int64_t eights = twos % 3 == 1 && twos > 1 ? twos / 3 - 1 : twos / 3;
  out.assign(static_cast<std::size_t>(eights), 8);
  for (twos -= 3 * eights; twos >= 2; twos -= 2) out.push_back(4);
  if (twos == 1) out.push_back(2);
  for (int64_t r = 2; n > 1; ++r) {
    while (n % r == 0) out.push_back(r), n /= r;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

int64_t largest_prime(int64_t n) {
  int64_t largest = 1;
  for (int64_t r = 2; r * r <= n; ++r) {
    while (n % r == 0) largest = r, n /= r;
  }
  return std::max(n, largest);
}

// From the first eighth of the circle, where cos and sin lose no digits.
void root(int64_t k, int64_t n, double* re, double* im) {
  k %= n;
  const bool below = 2 * k > n;  // the lower half mirrors the upper one
  if (below) k = n - k;
  const bool left = 4 * k > n;
  if (left) k = n - 2 * k;  // of 2 n, from here on: the angle is pi k / n from the negative axis
  const double angle =
      std::numbers::pi * static_cast<double>(left ? k : 2 * k) / static_cast<double>(n);
  const double x = std::cos(angle), y = std::sin(angle);
  *re = left ? -x : x;
  *im = below ? y : -y;
}

template <class T>
Plan<T>::Plan(int64_t n) : n_(n) {
  if (n <= 1) return;
  if (largest_prime(n) > kLargestRadix) {
    int64_t m = 1;
    while (m < 2 * n - 1) m *= 2;
    inner_ = std::make_unique<Plan>(m);
    const auto square = [n](int64_t k) {
      return static_cast<int64_t>(static_cast<unsigned __int128>(k) * static_cast<uint64_t>(k) %
                                  static_cast<uint64_t>(2 * n));
    };
    fill_roots(n, 2 * n, square, chirp_re_, chirp_im_);
    spectrum_re_.assign(static_cast<std::size_t>(m), T(0));
    spectrum_im_ = spectrum_re_;
    for (int64_t k = 0; k < n; ++k) {
      for (const int64_t at : {k, (m - k) % m}) {
        spectrum_re_[static_cast<std::size_t>(at)] = chirp_re_[static_cast<std::size_t>(k)] / T(m);
        spectrum_im_[static_cast<std::size_t>(at)] = -chirp_im_[static_cast<std::size_t>(k)] / T(m);
      }
    }
    std::vector<T> work(static_cast<std::size_t>(2 * inner_->work(1)));
    inner_->run({spectrum_re_.data(), spectrum_im_.data()},
                {work.data(), work.data() + inner_->work(1)}, 1);
    return;
  }
  int64_t left = n;
  for (const int64_t radix : radices(n)) {
    Pass<T>& pass = passes_.emplace_back();
    pass.radix = radix;
    pass.groups = left / radix;
    fill_roots(
        pass.groups * (radix - 1), left,
        [radix](int64_t i) { return i / (radix - 1) * (i % (radix - 1) + 1); }, pass.re, pass.im);
    fill_roots(
        radix, radix, [](int64_t i) { return i; }, pass.roots_re, pass.roots_im);
    left /= radix;
  }
}

template <class T>
int64_t Plan<T>::work(int64_t width) const {
  return inner_ != nullptr ? inner_->length() * width + inner_->work(width) : n_ * width;
}

template <class T>
void Plan<T>::run(Parts<T> x, Parts<T> work, int64_t width) const {
  const Parts<T> y = run_to_either(x, work, width);
  if (y.re == x.re) return;
  std::copy(y.re, y.re + n_ * width, x.re);
  std::copy(y.im, y.im + n_ * width, x.im);
}

template <class T>
void Plan<T>::run_passes(State& state, std::size_t end, int64_t width) const {
  for (; state.count < end; ++state.count) {
    const Pass<T>& p = passes_[state.count];
    code<T>().pass(run_of(p, width * (n_ / (p.groups * p.radix)), state.at, state.free));
    std::swap(state.at, state.free);
  }
}

template <class T>
Parts<T> Plan<T>::run_to_either(Parts<T> x, Parts<T> work, int64_t width) const {
  if (inner_ != nullptr) {
    run_convolution(x, work, width);
    return x;
  }
  State state{0, x, work};
  run_passes(state, passes_.size(), width);
  return state.at;
}

template <class T>
auto Plan<T>::begin(Neighbours<const Complex<T>> from, bool inverse, Parts<T> x,
                    Parts<T> work) const -> State {
  if (passes_.size() > 1 && has_wide_form(passes_.front())) {
    code<T>().first(run_of(passes_.front(), kWidth, x, work), numbers(from.at), from.step, inverse);
    return {1, work, x};
  }
  const Parts<T> to = exchanged(x, inverse);
  code<T>().take(numbers(from.at), from.step, n_, to.re, to.im);
  if (inner_ != nullptr) run_convolution(x, work, kWidth);
  return {0, x, work};
}

template <class T>
void Plan<T>::finish(State state, Neighbours<Complex<T>> to, T scale, bool inverse) const {
  if (passes_.size() > 1 && has_wide_form(passes_.back())) {
    const Pass<T>& p = passes_.back();
    run_passes(state, passes_.size() - 1, kWidth);
    const int64_t s = kWidth * (n_ / p.radix);
    code<T>().last(run_of(p, s, state.at, state.free), scale, numbers(to.at), to.step, inverse);
    return;
  }
  run_passes(state, passes_.size(), kWidth);
  const Parts<T> y = exchanged(state.at, inverse);
  code<T>().give(y.re, y.im, scale, n_, numbers(to.at), to.step);
}

template <class T>
Parts<T> Plan<T>::run_from(Neighbours<const Complex<T>> from, bool inverse, Parts<T> x,
                           Parts<T> work) const {
  State state = begin(from, inverse, x, work);
  run_passes(state, passes_.size(), kWidth);
  return state.at;
}

template <class T>
void Plan<T>::run_to(Neighbours<Complex<T>> to, T scale, bool inverse, Parts<T> x,
                     Parts<T> work) const {
  if (inner_ != nullptr) run_convolution(x, work, kWidth);
  finish({0, x, work}, to, scale, inverse);
}

template <class T>
void Plan<T>::run_between(Neighbours<const Complex<T>> from, Neighbours<Complex<T>> to, T scale,
                          bool inverse, Parts<T> x, Parts<T> work) const {
  finish(begin(from, inverse, x, work), to, scale, inverse);
}

// x_k c_k, convolved with the conjugate of c, times c: c_k = exp(-pi i k^2 / n).
template <class T>
void Plan<T>::run_convolution(Parts<T> x, Parts<T> work, int64_t width) const {
  const int64_t m = inner_->length();
  const Parts<T> y = work, more = work.at(m * width);
  code<T>().multiply(x.re, x.im, chirp_re_.data(), chirp_im_.data(), n_, width);
  for (const auto& [to, from] : {std::pair{y.re, x.re}, std::pair{y.im, x.im}}) {
    std::copy(from, from + n_ * width, to);
    std::fill(to + n_ * width, to + m * width, T(0));
  }
  inner_->run(y, more, width);
  code<T>().multiply(y.re, y.im, spectrum_re_.data(), spectrum_im_.data(), m, width);
  inner_->run({y.im, y.re}, {more.im, more.re}, width);
  std::copy(y.re, y.re + n_ * width, x.re);
  std::copy(y.im, y.im + n_ * width, x.im);
  code<T>().multiply(x.re, x.im, chirp_re_.data(), chirp_im_.data(), n_, width);
}

template <class T>
void give_turned(Parts<const T> x, Parts<const T> w, int64_t n, bool inverse,
                 Neighbours<Complex<T>> to) {
  code<T>().give_turned(x.re, x.im, w.re, w.im, n, numbers(to.at), to.step, inverse);
}

#if defined(__x86_64__) && !defined(ETUDE_WITHOUT_AVX512)
static int64_t whole_lines(int64_t n) {
  return internal::best_isa() == internal::Isa::kAvx512 ? n / avx512::kLine * avx512::kLine : 0;
}
int64_t take_rows(const Complex<float>* in, const int64_t* start, int64_t n, Parts<float> x) {
  const int64_t done = whole_lines(n);
  if (done > 0) avx512::take_rows(numbers(in), start, done, x.re, x.im);
  return done;
}
int64_t give_rows(Parts<float> x, float scale, const int64_t* start, int64_t n,
                  Complex<float>* out) {
  const int64_t done = whole_lines(n);
  if (done > 0) avx512::give_rows(x.re, x.im, scale, start, done, numbers(out));
  return done;
}
#else
int64_t take_rows(const Complex<float>*, const int64_t*, int64_t, Parts<float>) { return 0; }
int64_t give_rows(Parts<float>, float, const int64_t*, int64_t, Complex<float>*) { return 0; }
#endif

template void give_turned(Parts<const float>, Parts<const float>, int64_t, bool,
                          Neighbours<Complex<float>>);
template void give_turned(Parts<const double>, Parts<const double>, int64_t, bool,
                          Neighbours<Complex<double>>);
template class Plan<float>;
template class Plan<double>;

}  // namespace etude::kernels::cpu::fourier
