// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "etude/base/check.h"
#include "etude/base/philox.h"
#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/floating.h"
#include "etude/kernels/cpu/simd/math_table.h"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kChunk = 1 << 13;  // elements per parallel chunk
constexpr std::size_t kTile = 256;   // elements that are in work at a time; a multiple of 4

struct RandomParams : KernelParams {
  int64_t keys = 1;
  int64_t count = 0;  // elements under one key
  int64_t low = 0;
  uint64_t range = 0;
};

// For results whose elements, or rows of 2 for new keys, are `total`.
etude::internal::RefPtr<RandomParams> params_for(const PrepareCall& call, int64_t total) {
  auto p = etude::internal::make_ref<RandomParams>();
  p->keys = call.types[0]->count() / 2;
  p->count = p->keys == 0 ? 0 : total / p->keys;
  return p;
}

PhiloxKey key_of(const KernelCall& call, int64_t number) {
  const uint64_t* key = static_cast<const uint64_t*>(call.in[0]) + 2 * number;
  return {key[0], key[1]};
}

// Calls body(key, first, begin, end) for chunks of the elements under each key, which start at
// multiples of kChunk; element 0 of the key is element `first` of the result.
template <class F>
void for_chunks(const KernelCall& call, double ns, const F& body) {
  const auto& p = *static_cast<const RandomParams*>(call.params);
  const int64_t chunks = (p.count + kChunk - 1) / kChunk;
  // Keys of few elements are done together.
  const int64_t together = std::max<int64_t>(1, kChunk / std::max<int64_t>(1, p.count));
  const int64_t groups = (p.keys + together - 1) / together;
  const double us = static_cast<double>(p.keys * p.count) * ns * 1e-3;
  parallel_for(groups * chunks, us, [&](int64_t item) {
    const int64_t begin = item % chunks * kChunk, end = std::min(p.count, begin + kChunk);
    const int64_t low = item / chunks * together, high = std::min(p.keys, low + together);
    for (int64_t number = low; number < high; ++number) {
      body(key_of(call, number), number * p.count, begin, end);
    }
  });
}

// Words [begin, begin + n) of the key; begin is a multiple of 4, and `out` has room for n rounded
// up.
void fill_words(PhiloxKey key, int64_t begin, std::size_t n, uint32_t* out) {
  auto block = static_cast<uint64_t>(begin) / 4;
  for (std::size_t i = 0; i < n; i += 4, ++block) {
    const std::array<uint32_t, 4> words = philox(key, block);
    std::copy(words.begin(), words.end(), out + i);
  }
}

// A double takes two words of a sequence of its own.
double double_at(PhiloxKey key, int64_t index) {
  const std::array<uint32_t, 4> words = philox(key, static_cast<uint64_t>(index) / 2);
  return index % 2 == 0 ? uniform_double(words[0], words[1]) : uniform_double(words[2], words[3]);
}

void (*function(std::string_view name))(float*, const float*, const float*, std::size_t) {
  for (const etude::internal::MathFn& fn :
       etude::internal::math_table(etude::internal::best_isa())) {
    if (fn.name == name) return fn.run;
  }
  ETUDE_THROW(kInternal, "no vector function is called '{}'", name);
}

template <class T>
struct Uniform {
  static void fill(PhiloxKey key, T* out, int64_t begin, std::size_t n) {
    if constexpr (std::is_same_v<T, double>) {
      for (std::size_t i = 0; i < n; ++i) out[i] = double_at(key, begin + static_cast<int64_t>(i));
    } else {
      // As many bits as the dtype holds below 1, so that no value rounds up to 1.
      constexpr int kBits = std::is_same_v<T, float> ? 24 : std::is_same_v<T, Float16> ? 11 : 8;
      constexpr float kUnit = 1.0f / static_cast<float>(1 << kBits);
      std::array<uint32_t, kTile> words;
      fill_words(key, begin, n, words.data());
      for (std::size_t i = 0; i < n; ++i) {
        out[i] = T(static_cast<float>(static_cast<int32_t>(words[i] >> (32 - kBits))) * kUnit);
      }
    }
  }
};

template <class T>
struct Normal {
  // Each block of the cipher makes two radii and two angles.
  static void fill(PhiloxKey key, T* out, int64_t begin, std::size_t n) {
    if constexpr (std::is_same_v<T, double>) {
      for (std::size_t i = 0; i < n; ++i) {
        const int64_t index = begin + static_cast<int64_t>(i), pair = index - index % 2;
        const double radius = std::sqrt(-2.0 * std::log(1.0 - double_at(key, pair)));
        const double angle = 6.283185307179586 * double_at(key, pair + 1);
        out[i] = radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
      }
    } else {
      static const auto log = function("log"), sin = function("sin"), cos = function("cos");
      std::array<uint32_t, kTile> words;
      std::array<float, kTile / 2> radius, angle, sines, cosines;
      fill_words(key, begin, n, words.data());
      const std::size_t pairs = (n + 1) / 2;
      for (std::size_t i = 0; i < pairs; ++i) {
        // In (0, 1]: a half of the step keeps the logarithm finite.
        radius[i] = (static_cast<float>(words[2 * i]) + 0.5f) * 0x1p-32f;
        angle[i] = static_cast<float>(static_cast<int32_t>(words[2 * i + 1] >> 8)) *
                   (6.2831855f * 0x1p-24f);
      }
      log(radius.data(), radius.data(), nullptr, pairs);
      sin(sines.data(), angle.data(), nullptr, pairs);
      cos(cosines.data(), angle.data(), nullptr, pairs);
      for (std::size_t i = 0; i < n; ++i) {
        const float r = std::sqrt(-2.0f * radius[i / 2]);
        out[i] = T(r * (i % 2 == 0 ? cosines[i / 2] : sines[i / 2]));
      }
    }
  }
};

// Inverse of erf in double: a few Newton steps from the float32 value.
double erfinv(double y, double start) {
  double x = start;
  for (int step = 0; step < 3; ++step) {
    x -= (std::erf(x) - y) * 0.886226925452758 * std::exp(x * x);
  }
  return x;
}

template <class T>
struct TruncatedNormal {
  static void fill(PhiloxKey key, T* out, int64_t begin, std::size_t n) {
    constexpr double kMass = 0.954499736103642;  // of a normal distribution within two deviations
    static const auto inverse = function("erfinv");
    std::array<float, kTile> y, x;
    std::array<double, kTile> exact;
    std::array<uint32_t, kTile> words;
    fill_words(key, begin, n, words.data());
    for (std::size_t i = 0; i < n; ++i) {
      // The middle of a step, so that both ends are equally far.
      const int64_t index = begin + static_cast<int64_t>(i);
      const double u =
          std::is_same_v<T, double> ? double_at(key, index) : uniform_float(words[i]) + 0x1p-25;
      exact[i] = kMass * (2 * u - 1);
      y[i] = static_cast<float>(exact[i]);
    }
    inverse(x.data(), y.data(), nullptr, n);
    for (std::size_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<T, double>)
        out[i] = 1.4142135623730951 * erfinv(exact[i], x[i]);
      else
        out[i] = T(1.41421354f * x[i]);
    }
  }
};

template <template <class> class Draw, class T>
bool run_draw(const KernelCall& call) {
  T* const results = static_cast<T*>(call.out[0]);
  for_chunks(call, 4, [&](PhiloxKey key, int64_t first, int64_t begin, int64_t end) {
    T* const out = results + first;
    for (int64_t at = begin; at < end; at += kTile) {
      Draw<T>::fill(key, out + at, at,
                    static_cast<std::size_t>(std::min<int64_t>(kTile, end - at)));
    }
  });
  return true;
}

template <template <class> class Draw>
void prepare_draw(const PrepareCall& call) {
  const auto p = params_for(call, call.out.results[0]->count());
  visit_floating(call.out.results[0]->dtype(),
                 [&]<class T, class>() { call.set(run_draw<Draw, T>, p); });
}

// floor(u range / 2^64) for 64 random bits u: each number is as likely as any other but for one
// part in 2^64 / range.
uint64_t below(uint64_t range, const std::array<uint32_t, 4>& words, bool second) {
  const uint64_t u =
      second ? words[2] | uint64_t{words[3]} << 32 : words[0] | uint64_t{words[1]} << 32;
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(u) * range) >> 64);
}

template <class T>
bool run_integers(const KernelCall& call) {
  const auto& p = *static_cast<const RandomParams*>(call.params);
  T* const results = static_cast<T*>(call.out[0]);
  for_chunks(call, 6, [&](PhiloxKey key, int64_t first, int64_t begin, int64_t end) {
    T* const out = results + first;
    for (int64_t i = begin; i < end; i += 2) {
      const std::array<uint32_t, 4> words = philox(key, static_cast<uint64_t>(i) / 2);
      for (int64_t j = i; j < std::min(i + 2, end); ++j) {
        out[j] = static_cast<T>(static_cast<uint64_t>(p.low) + below(p.range, words, j != i));
      }
    }
  });
  return true;
}

template <class T>
bool run_fold_in(const KernelCall& call) {
  const T* numbers = static_cast<const T*>(call.in[1]);
  uint64_t* out = static_cast<uint64_t*>(call.out[0]);
  for_chunks(call, 10, [&](PhiloxKey key, int64_t first, int64_t begin, int64_t end) {
    for (int64_t i = first + begin; i < first + end; ++i) {
      const PhiloxKey made = fold_in(key, static_cast<uint64_t>(numbers[i]));
      out[2 * i] = made.seed;
      out[2 * i + 1] = made.stream;
    }
  });
  return true;
}

// Fisher and Yates: place i is exchanged with a place up to i.
bool run_permutation(const KernelCall& call) {
  const auto& p = *static_cast<const RandomParams*>(call.params);
  parallel_for(p.keys, static_cast<double>(p.keys * p.count) * 1e-2, [&](int64_t number) {
    const PhiloxKey key = key_of(call, number);
    int64_t* const out = static_cast<int64_t*>(call.out[0]) + number * p.count;
    std::iota(out, out + p.count, 0);
    for (int64_t i = p.count - 1; i > 0; --i) {
      const std::array<uint32_t, 4> words = philox(key, static_cast<uint64_t>(i) / 2);
      std::swap(out[i], out[below(static_cast<uint64_t>(i) + 1, words, i % 2 == 1)]);
    }
  });
  return true;
}

}  // namespace

void prepare_random_uniform(const PrepareCall& call) { prepare_draw<Uniform>(call); }
void prepare_random_normal(const PrepareCall& call) { prepare_draw<Normal>(call); }
void prepare_random_truncated_normal(const PrepareCall& call) {
  prepare_draw<TruncatedNormal>(call);
}

void prepare_random_integers(const PrepareCall& call) {
  const auto p = params_for(call, call.out.results[0]->count());
  p->low = call.attrs.integer("low");
  p->range = static_cast<uint64_t>(call.attrs.integer("high")) - static_cast<uint64_t>(p->low);
  visit_dtype(call.out.results[0]->dtype(), [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) call.set(run_integers<T>, p);
  });
}

void prepare_random_fold_in(const PrepareCall& call) {
  const auto p = params_for(call, call.out.results[0]->count() / 2);
  visit_dtype(call.types[1]->dtype(), [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) call.set(run_fold_in<T>, p);
  });
}

void prepare_random_permutation(const PrepareCall& call) {
  call.set(run_permutation, params_for(call, call.out.results[0]->count()));
}

}  // namespace etude::kernels::cpu
