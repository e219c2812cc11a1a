// SPDX-License-Identifier: Apache-2.0
// The fitting problem: curves, measures of error, and the data of many users and of one. Used by
// all ways to compute its gradients.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace etude::bench::spline {

// A curve on [0, 1] reads kReads neighbouring control points, weighted by polynomials of the place
// t in [0, 1) within its segment; kPowers[n] are their coefficients of t^n.
struct CubicB {
  static constexpr const char* kName = "B-spline";
  static constexpr int kReads = 4;
  template <class T>
  static constexpr T kPowers[4][4] = {{T(1) / 6, T(4) / 6, T(1) / 6, 0},
                                      {T(-0.5), 0, T(0.5), 0},
                                      {T(0.5), -1, T(0.5), 0},
                                      {T(-1) / 6, T(0.5), T(-0.5), T(1) / 6}};
  template <class T>
  static constexpr std::array<T, 4> weights(const T& t) {
    const T u = 1 - t, sixth = T(1.0 / 6);
    return {sixth * (u * u * u), sixth * (t * t * (3 * t - 6) + 4),
            sixth * (u * u * (3 * u - 6) + 4), sixth * (t * t * t)};
  }
};
struct CatmullRom {
  static constexpr const char* kName = "Catmull-Rom";
  static constexpr int kReads = 4;
  template <class T>
  static constexpr T kPowers[4][4] = {{0, 1, 0, 0},
                                      {T(-0.5), 0, T(0.5), 0},
                                      {1, T(-2.5), 2, T(-0.5)},
                                      {T(-0.5), T(1.5), T(-1.5), T(0.5)}};
  template <class T>
  static constexpr std::array<T, 4> weights(const T& t) {
    const T half = T(0.5);
    return {half * (t * (t * (2 - t) - 1)), half * (t * t * (3 * t - 5) + 2),
            half * (t * (t * (4 - 3 * t) + 1)), half * (t * t * (t - 1))};
  }
};
struct Linear {
  static constexpr const char* kName = "linear";
  static constexpr int kReads = 2;
  template <class T>
  static constexpr T kPowers[4][2] = {{1, 0}, {-1, 1}, {0, 0}, {0, 0}};
  template <class T>
  static constexpr std::array<T, 2> weights(const T& t) {
    return {1 - t, t};
  }
};

// The error of a curve that is s where the datum is y.
struct Squares {
  static constexpr const char* kName = "squares";
  template <class S, class Y>
  static constexpr S of(const S& s, const Y& y) {
    const S r = s - y;
    return r * r;
  }
};
// Of a curve that is the logarithm of odds, with y one of 0 and 1.
struct LogLoss {
  static constexpr const char* kName = "log-loss";
  template <class S, class Y>
  static constexpr S of(const S& s, const Y& y) {
    using std::exp, std::log1p;
    return log1p(exp(s)) - y * s;
  }
};

enum class Curve { b_spline, catmull_rom, linear };
enum class Measure { squares, log_loss };

template <class T>
struct Points {
  std::vector<T> x, y;
};

// The loss: the mean error of the points, and prices on curvature and on the distance to `pooled`,
// which is empty where many users are fitted.
template <class T>
struct Problem {
  static constexpr T kRough = T(1e-3), kAway = T(1e-3);
  Curve curve = Curve::b_spline;
  Measure measure = Measure::squares;
  std::size_t controls = 16;
  Points<T> data;
  std::vector<T> pooled;
};

// The segment of x, of as many as fit on the control points, and the place in it.
template <class T>
struct Place {
  int segment;
  T t;
};
template <class C, class T>
[[gnu::always_inline]] inline Place<T> place_of(T x, int controls) {
  const int segments = controls - C::kReads + 1;
  const T at = x * static_cast<T>(segments);
  const int segment = std::min(static_cast<int>(at), segments - 1);
  return {segment, at - static_cast<T>(segment)};
}

// A loss that can be minimised. It owns its state between calls.
template <class T>
class Objective {
 public:
  virtual ~Objective() = default;
  virtual T value(const std::vector<T>& p) = 0;
  // `slope` has the size of p.
  virtual T value_with_gradient(const std::vector<T>& p, std::vector<T>& slope) = 0;
};

// Way<T, C, M> for the curve and the measure of the problem, which must outlive it.
template <template <class, class, class> class Way, class T>
std::unique_ptr<Objective<T>> make_way(const Problem<T>& problem) {
  const auto with = [&]<class C>(const C&) -> std::unique_ptr<Objective<T>> {
    if (problem.measure == Measure::squares) return std::make_unique<Way<T, C, Squares>>(problem);
    return std::make_unique<Way<T, C, LogLoss>>(problem);
  };
  if (problem.curve == Curve::b_spline) return with(CubicB());
  if (problem.curve == Curve::catmull_rom) return with(CatmullRom());
  return with(Linear());
}

inline constexpr std::size_t kPooledPoints = 20'000;
// Pooled data: 200 users with amplitudes and shifts of their own, `count` points in all. The same
// numbers with every standard library, but for the last digits of tanh.
Points<double> many_users(std::size_t count);
// One of them: 512 points, most of them in clusters, none in two gaps.
Points<double> one_user();
// For LogLoss: 1 where y is above a half, else 0.
void make_labels(Points<double>& data);

template <class T>
Points<T> as(const Points<double>& data) {
  return {{data.x.begin(), data.x.end()}, {data.y.begin(), data.y.end()}};
}

}  // namespace etude::bench::spline
