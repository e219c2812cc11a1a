// SPDX-License-Identifier: Apache-2.0
// How a transform of one length is computed: its passes with their roots of unity. Real and
// imaginary parts lie apart, and element k of `width` transforms lies at k * width, so that every
// loop is over neighbours. Part of fft.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace etude::kernels::cpu::fourier {

// Real and imaginary parts.
template <class T>
struct Parts {
  T* re;
  T* im;
  Parts at(int64_t offset) const { return {re + offset, im + offset}; }
};

// One pass of a transform: radix r, over m groups.
template <class T>
struct Pass {
  int64_t radix = 1, groups = 1;
  std::vector<T> re, im;              // [groups, radix - 1]: what results 1.. are multiplied by
  std::vector<T> roots_re, roots_im;  // of order `radix`, for radices without code of their own
};

// cos and sin of -2 pi k / n, right to the last digit of T for all k.
void root(int64_t k, int64_t n, double* re, double* im);

template <class T>
class Plan {
 public:
  explicit Plan(int64_t n);
  int64_t length() const { return n_; }
  // Elements of work memory for `width` transforms: twice that of `x` by itself.
  int64_t work(int64_t width) const;
  // x [n, width], transformed with exponent -2 pi i; with + if re and im are exchanged.
  void run(Parts<T> x, Parts<T> work, int64_t width) const;
  // The same, but the result is where the last pass leaves it, in x or in work.
  Parts<T> run_to_either(Parts<T> x, Parts<T> work, int64_t width) const;

 private:
  void run_convolution(Parts<T> x, Parts<T> work, int64_t width) const;

  int64_t n_;
  std::vector<Pass<T>> passes_;
  // Bluestein: a transform of this length, the chirp [n], and the spectrum of its conjugate.
  std::unique_ptr<Plan> inner_;
  std::vector<T> chirp_re_, chirp_im_, spectrum_re_, spectrum_im_;
};

// The largest prime that divides n; 1 for n <= 1.
int64_t largest_prime(int64_t n);
inline constexpr int64_t kLargestRadix = 31;

extern template class Plan<float>;
extern template class Plan<double>;

}  // namespace etude::kernels::cpu::fourier
