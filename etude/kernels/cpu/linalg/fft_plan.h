// SPDX-License-Identifier: Apache-2.0
// The computation of a transform of one length: its passes with their roots of unity. Real and
// imaginary parts are separate, and element k of `width` transforms is at k * width, so that every
// loop is over neighbours. Part of fft.cc.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace etude::kernels::cpu::fourier {

inline constexpr int64_t kWidth = 16;  // transforms that run together

template <class T>
using Complex = std::complex<T>;

// Real and imaginary parts.
template <class T>
struct Parts {
  T* re;
  T* im;
  Parts at(int64_t offset) const { return {re + offset, im + offset}; }
};

// kWidth transforms as interleaved complex numbers: element k of the first is at[k * step].
template <class Z>
struct Neighbours {
  Z* at;
  int64_t step;
};

// One pass of a transform: radix r, over m groups.
template <class T>
struct Pass {
  int64_t radix = 1, groups = 1;
  std::vector<T> re, im;              // [groups, radix - 1]: factors of results 1..
  std::vector<T> roots_re, roots_im;  // of order `radix`, for radices without special code
};

// cos and sin of -2 pi k / n, accurate to the last digit of T for all k.
void root(int64_t k, int64_t n, double* re, double* im);

template <class T>
class Plan {
 public:
  explicit Plan(int64_t n);
  int64_t length() const { return n_; }
  // The number of elements of work memory for `width` transforms, besides x: twice the elements of
  // x.
  int64_t work(int64_t width) const;
  // Transforms x [n, width] with exponent -2 pi i; with +2 pi i if re and im are exchanged.
  void run(Parts<T> x, Parts<T> work, int64_t width) const;
  // The same, but the result stays where the last pass writes it, in x or in work.
  Parts<T> run_to_either(Parts<T> x, Parts<T> work, int64_t width) const;
  // The same for kWidth interleaved transforms. Reads `from` or x, and writes `to` (times `scale`),
  // or x or work. Inverse transforms have the exponent 2 pi i: the real and imaginary parts of
  // separate arrays are exchanged. `to` may be `from`.
  Parts<T> run_from(Neighbours<const Complex<T>> from, bool inverse, Parts<T> x,
                    Parts<T> work) const;
  void run_to(Neighbours<Complex<T>> to, T scale, bool inverse, Parts<T> x, Parts<T> work) const;
  void run_between(Neighbours<const Complex<T>> from, Neighbours<Complex<T>> to, T scale,
                   bool inverse, Parts<T> x, Parts<T> work) const;

 private:
  // The number of passes that have run, their result, and the free memory.
  struct State {
    std::size_t count;
    Parts<T> at, free;
  };
  State begin(Neighbours<const Complex<T>> from, bool inverse, Parts<T> x, Parts<T> work) const;
  void finish(State state, Neighbours<Complex<T>> to, T scale, bool inverse) const;
  // Runs passes up to `end`.
  void run_passes(State& state, std::size_t end, int64_t width) const;
  void run_convolution(Parts<T> x, Parts<T> work, int64_t width) const;

  int64_t n_;
  std::vector<Pass<T>> passes_;
  // For Bluestein's method: the inner transform, the chirp [n], and the spectrum of its conjugate.
  std::unique_ptr<Plan> inner_;
  std::vector<T> chirp_re_, chirp_im_, spectrum_re_, spectrum_im_;
};

// The largest prime that divides n; 1 for n <= 1.
int64_t largest_prime(int64_t n);
inline constexpr int64_t kLargestRadix = 31;

// Multiplies x [n, kWidth] by w; real and imaginary parts are exchanged for inverse transforms.
template <class T>
void give_turned(Parts<const T> x, Parts<const T> w, int64_t n, bool inverse,
                 Neighbours<Complex<T>> to);
// Converts elements of kWidth rows that begin at in + start[c] to separate parts, and back, times a
// factor. Processes at most the first n elements, in whole cache lines, and returns their number; 0
// if this machine has no code for it.
int64_t take_rows(const Complex<float>* in, const int64_t* start, int64_t n, Parts<float> x);
int64_t give_rows(Parts<float> x, float scale, const int64_t* start, int64_t n,
                  Complex<float>* out);

extern template class Plan<float>;
extern template class Plan<double>;

}  // namespace etude::kernels::cpu::fourier
