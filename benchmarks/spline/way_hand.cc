// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "benchmarks/spline/ways.h"

namespace etude::bench::spline {
namespace {

// The loss and its gradient as one writes them by hand: one loop over the points, with the weights
// of a point in one vector. Four points at a time, so that their sums are taken side by side and
// that gradients of neighbours, which often meet in one place, need not wait for each other.
template <class T, int n>
struct LanesOf {
  typedef T type __attribute__((vector_size(n * sizeof(T))));
};
template <class T, int n>
using Lanes = typename LanesOf<T, n>::type;

template <class T, int n>
inline Lanes<T, n> load(const T* from) {
  Lanes<T, n> out;
  std::memcpy(&out, from, sizeof out);
  return out;
}
template <class V, class T>
inline void store(const V& lanes, T* to) {
  std::memcpy(to, &lanes, sizeof lanes);
}

// The sums of the lanes of four vectors.
template <class T>
inline Lanes<T, 4> sums_of(const Lanes<T, 4> (&v)[4]) {
  const auto low01 = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5),
             high01 = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7),
             low23 = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5),
             high23 = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
  const Lanes<T, 4> a = low01 + high01, b = low23 + high23;
  return __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
}
template <class T>
inline Lanes<T, 4> sums_of(const Lanes<T, 2> (&v)[4]) {
  return Lanes<T, 4>{v[0][0], v[1][0], v[2][0], v[3][0]} +
         Lanes<T, 4>{v[0][1], v[1][1], v[2][1], v[3][1]};
}

template <class T, class C, class M>
class Hand final : public Objective<T> {
 public:
  explicit Hand(const Problem<T>& problem)
      : problem_(problem), slopes_(kCopies * problem.controls), bends_(problem.controls + 2) {}

  T value(const std::vector<T>& p) override { return compute<false>(p, nullptr); }
  T value_with_gradient(const std::vector<T>& p, std::vector<T>& slope) override {
    return compute<true>(p, slope.data());
  }

 private:
  static constexpr int kReads = C::kReads, kCopies = 4, kBlock = 64;
  using Row = Lanes<T, kReads>;

  template <bool with_slope>
  T compute(const std::vector<T>& p, T* slope) {
    const T share = 1 / static_cast<T>(problem_.data.x.size());
    const T error = share * errors<with_slope>(p);
    if constexpr (with_slope) {
      const std::size_t k = p.size();
      const T* from = slopes_.data();
      for (std::size_t i = 0; i < k; ++i) {
        slope[i] = share * ((from[i] + from[k + i]) + (from[2 * k + i] + from[3 * k + i]));
      }
    }
    return error + rough<with_slope>(p, slope) + away<with_slope>(p, slope);
  }

  // The sum of the errors of the points, its gradient in copies.
  template <bool with_slope>
  T errors(const std::vector<T>& p) {
    const Points<T>& data = problem_.data;
    const std::size_t n = data.x.size(), whole = n / 4 * 4;
    if constexpr (with_slope) std::fill(slopes_.begin(), slopes_.end(), T(0));
    Lanes<T, 4> total{};
    for (std::size_t begin = 0; begin < whole; begin += kBlock) {
      const int count = static_cast<int>(std::min<std::size_t>(kBlock, whole - begin));
      total += block<with_slope>(p, &data.x[begin], &data.y[begin], count);
    }
    if (whole < n) {  // the last few, with others that do not count
      T x[4] = {}, y[4] = {};
      std::copy(data.x.begin() + static_cast<std::ptrdiff_t>(whole), data.x.end(), x);
      std::copy(data.y.begin() + static_cast<std::ptrdiff_t>(whole), data.y.end(), y);
      total += block<with_slope>(p, x, y, 4, n - whole);
    }
    return (total[0] + total[1]) + (total[2] + total[3]);
  }

  template <bool with_slope>
  Lanes<T, 4> block(const std::vector<T>& p, const T* x, const T* y, int count,
                    std::size_t counting = 4) {
    int segments[kBlock];
    T t[kBlock];
    const int controls = static_cast<int>(p.size());
    for (int j = 0; j < count; ++j) {
      const Place<T> place = place_of<C>(x[j], controls);
      segments[j] = place.segment;
      t[j] = place.t;
    }
    Lanes<T, 4> total{};
    for (int j = 0; j < count; j += 4) {
      Row weights[4], terms[4];
      for (int l = 0; l < 4; ++l) {
        weights[l] = weights_at(t[j + l]);
        terms[l] = weights[l] * load<T, kReads>(&p[static_cast<std::size_t>(segments[j + l])]);
      }
      const Lanes<T, 4> s = sums_of<T>(terms), at = load<T, 4>(y + j);
      Lanes<T, 4> error, slope;
      measure(s, at, error, slope);
      for (std::size_t l = counting; l < 4; ++l) error[l] = slope[l] = 0;
      total += error;
      if constexpr (with_slope) {
        for (int l = 0; l < 4; ++l) {
          T* to = slopes_.data() + static_cast<std::size_t>(l) * p.size() + segments[j + l];
          store(load<T, kReads>(to) + slope[l] * weights[l], to);
        }
      }
    }
    return total;
  }
  static Row weights_at(T t) {
    constexpr auto& powers = C::template kPowers<T>;
    const Row c0 = load<T, kReads>(powers[0]), c1 = load<T, kReads>(powers[1]);
    if constexpr (kReads == 2) {
      return c0 + t * c1;
    } else {
      const Row c2 = load<T, kReads>(powers[2]), c3 = load<T, kReads>(powers[3]);
      return c0 + t * (c1 + t * (c2 + t * c3));
    }
  }
  static void measure(const Lanes<T, 4>& s, const Lanes<T, 4>& y, Lanes<T, 4>& error,
                      Lanes<T, 4>& slope) {
    if constexpr (std::is_same_v<M, Squares>) {
      const Lanes<T, 4> r = s - y;
      error = r * r;
      slope = 2 * r;
    } else {
      for (int l = 0; l < 4; ++l) {
        const T e = std::exp(s[l]);
        error[l] = std::log1p(e) - y[l] * s[l];
        slope[l] = e / (1 + e) - y[l];
      }
    }
  }

  template <bool with_slope>
  T rough(const std::vector<T>& p, T* slope) {
    const std::size_t n = p.size();
    T* bends = bends_.data();  // bends[i] is around p[i - 1]; two zeros before and after
    for (std::size_t i = 2; i < n; ++i) bends[i] = p[i] - 2 * p[i - 1] + p[i - 2];
    if constexpr (with_slope) {
      for (std::size_t i = 0; i < n; ++i) {
        slope[i] += 2 * Problem<T>::kRough * (bends[i] - 2 * bends[i + 1] + bends[i + 2]);
      }
    }
    return Problem<T>::kRough * sum_of_squares(n - 2, [&](std::size_t i) { return bends[i + 2]; });
  }
  template <bool with_slope>
  T away(const std::vector<T>& p, T* slope) {
    const std::vector<T>& pooled = problem_.pooled;
    const std::size_t n = pooled.size();
    if constexpr (with_slope) {
      for (std::size_t i = 0; i < n; ++i) slope[i] += 2 * Problem<T>::kAway * (p[i] - pooled[i]);
    }
    return Problem<T>::kAway * sum_of_squares(n, [&](std::size_t i) { return p[i] - pooled[i]; });
  }
  // In eight lanes, as sums of float are not reordered by the compiler.
  template <class At>
  static T sum_of_squares(std::size_t n, const At& at) {
    constexpr std::size_t kLanes = 8;
    T sums[kLanes] = {};
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (std::size_t l = 0; l < kLanes; ++l) sums[l] += at(i + l) * at(i + l);
    }
    for (; i < n; ++i) sums[0] += at(i) * at(i);
    T sum = 0;
    for (const T each : sums) sum += each;
    return sum;
  }

  const Problem<T>& problem_;
  std::vector<T> slopes_, bends_;
};

}  // namespace

template <class T>
std::unique_ptr<Objective<T>> make_hand(const Problem<T>& problem) {
  return make_way<Hand>(problem);
}
template std::unique_ptr<Objective<float>> make_hand(const Problem<float>& problem);
template std::unique_ptr<Objective<double>> make_hand(const Problem<double>& problem);

}  // namespace etude::bench::spline
