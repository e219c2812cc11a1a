// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/fft_plan.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "etude/kernels/cpu/simd/math_table.h"

#define ISA_NAMESPACE etude::kernels::cpu::fourier
#define ISA_PRELUDE "etude/kernels/cpu/simd/vec.inc"
#define ISA_SOURCE "etude/kernels/cpu/fft_pass.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu::fourier {
namespace {

// The code of the best instruction set of this machine.
template <class T>
struct Code {
  void (*pass)(const portable::PassRun<T>&);
  void (*multiply)(T*, T*, const T*, const T*, int64_t, int64_t);
};

#if defined(__x86_64__)
// The same fields in each namespace.
template <class T, void (*run)(const avx2::PassRun<T>&)>
void pass_avx2(const portable::PassRun<T>& p) {
  run({p.radix, p.groups, p.s, p.in_re, p.in_im, p.out_re, p.out_im, p.tw_re, p.tw_im, p.roots_re,
       p.roots_im});
}
template <class T, void (*run)(const avx512::PassRun<T>&)>
void pass_avx512(const portable::PassRun<T>& p) {
  run({p.radix, p.groups, p.s, p.in_re, p.in_im, p.out_re, p.out_im, p.tw_re, p.tw_im, p.roots_re,
       p.roots_im});
}
#endif

template <class T>
const Code<T>& code() {
  static const Code<T> chosen = [] {
#if defined(__x86_64__)
    const internal::Isa isa = internal::best_isa();
    if (isa == internal::Isa::kAvx512)
      return Code<T>{pass_avx512<T, avx512::pass<T>>, avx512::multiply<T>};
    if (isa == internal::Isa::kAvx2) return Code<T>{pass_avx2<T, avx2::pass<T>>, avx2::multiply<T>};
#endif
    return Code<T>{portable::pass<T>, portable::multiply<T>};
  }();
  return chosen;
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
Parts<T> Plan<T>::run_to_either(Parts<T> x, Parts<T> work, int64_t width) const {
  if (inner_ != nullptr) {
    run_convolution(x, work, width);
    return x;
  }
  int64_t s = width;
  Parts<T> from = x, to = work;
  for (const Pass<T>& p : passes_) {
    code<T>().pass({p.radix, p.groups, s, from.re, from.im, to.re, to.im, p.re.data(), p.im.data(),
                    p.roots_re.data(), p.roots_im.data()});
    s *= p.radix;
    std::swap(from, to);
  }
  return from;
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

template class Plan<float>;
template class Plan<double>;

}  // namespace etude::kernels::cpu::fourier
