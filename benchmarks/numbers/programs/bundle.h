// SPDX-License-Identifier: Apache-2.0
// Bundle adjustment: how far off a camera sees a point. Each observation has two weighted residuals
// and the error 1 - w^2 of its weight. The derivatives are: of the residuals by 11 numbers of the
// camera, 3 of the point and the weight; of the error by the weight. An objective of Srajer,
// Kukelova, Fitzgibbon, "A Benchmark of Selected Algorithmic Differentiation Tools", 2018.
//
// Camera: a rotation about its vector by its length (Rodrigues) [3], centre [3], focal length,
// principal point [2], radial distortion [2].
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "benchmarks/numbers/programs/random.h"

namespace etude::bench::numbers {

template <class T>
using Vector3 = std::array<T, 3>;
template <class T>
using Camera = std::array<T, 11>;

template <class T>
T dot(const Vector3<T>& a, const Vector3<T>& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}
template <class T>
Vector3<T> cross(const Vector3<T>& a, const Vector3<T>& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

// v cos t + (r x v) sin t / t + r (r . v) (1 - cos t) / t^2 with t = |r|; to first order where t is
// 0.
template <class T>
Vector3<T> rotate(const Vector3<T>& r, const Vector3<T>& v) {
  using std::cos, std::sin, std::sqrt;
  const T square = dot(r, r);
  const Vector3<T> across = cross(r, v);
  if (square == 0.0) return {v[0] + across[0], v[1] + across[1], v[2] + across[2]};
  const T angle = sqrt(square);
  const T cosine = cos(angle), by_across = sin(angle) / angle;
  const T by_axis = dot(r, v) * (1.0 - cosine) / square;
  Vector3<T> out;
  for (std::size_t i = 0; i < 3; ++i) {
    out[i] = v[i] * cosine + across[i] * by_across + r[i] * by_axis;
  }
  return out;
}

template <class T>
std::array<T, 2> reprojection(const Camera<T>& camera, const Vector3<T>& point, const T& weight,
                              const std::array<double, 2>& seen) {
  const Vector3<T> from_centre = {point[0] - camera[3], point[1] - camera[4], point[2] - camera[5]};
  const Vector3<T> at = rotate<T>({camera[0], camera[1], camera[2]}, from_centre);
  const T x = at[0] / at[2], y = at[1] / at[2];
  const T square = x * x + y * y;
  const T scale = camera[6] * (1.0 + square * (camera[9] + square * camera[10]));
  return {weight * (x * scale + camera[7] - seen[0]), weight * (y * scale + camera[8] - seen[1])};
}

template <class T>
T weight_error(const T& weight) {
  return 1.0 - weight * weight;
}

// The derivatives of one observation.
struct BundleBlock {
  std::array<std::array<double, 15>, 2> residuals;  // by camera, point, weight
  double error;                                     // by the weight
};

struct Bundle {
  static constexpr std::size_t kCameras = 20, kPoints = 400, kObservations = 4000;
  struct Observation {
    std::size_t camera, point;
    std::array<double, 2> seen;
  };
  std::vector<Camera<double>> cameras = make_cameras();
  std::vector<Vector3<double>> points = make_points();
  std::vector<double> weights = Random(41).uniforms(kObservations, 0.5, 1.5);
  std::vector<Observation> observations = make_observations();

  static BundleBlock hand_block(const Camera<double>& camera, const Vector3<double>& point,
                                double weight, const std::array<double, 2>& seen);

 private:
  static std::vector<Camera<double>> make_cameras() {
    Random random(31);
    std::vector<Camera<double>> cameras(kCameras);
    for (Camera<double>& c : cameras) {
      for (std::size_t i = 0; i < 6; ++i) c[i] = random.uniform(-0.5, 0.5);
      c[6] = random.uniform(400, 600);
      for (std::size_t i = 7; i < 9; ++i) c[i] = random.uniform(-5, 5);
      for (std::size_t i = 9; i < 11; ++i) c[i] = random.uniform(-0.1, 0.1);
    }
    return cameras;
  }
  static std::vector<Vector3<double>> make_points() {
    Random random(37);
    std::vector<Vector3<double>> points(kPoints);
    for (Vector3<double>& p : points) {
      p = {random.uniform(-1, 1), random.uniform(-1, 1), random.uniform(4, 6)};
    }
    return points;
  }
  static std::vector<Observation> make_observations() {
    Random random(43);
    std::vector<Observation> observations(kObservations);
    for (std::size_t i = 0; i < kObservations; ++i) {
      observations[i] = {
          i % kCameras, (i * 7) % kPoints, {random.uniform(-200, 200), random.uniform(-200, 200)}};
    }
    return observations;
  }
};

// The rotated vector and its derivatives by r, row by row, and by v: the rotation. The factors
// s = sin t / t and c = (1 - cos t) / t^2 have the slopes (cos t - s) / t and (s - 2 c) / t.
struct Rotated {
  Vector3<double> at;
  std::array<Vector3<double>, 3> by_axis, by_vector;

  Rotated(const Vector3<double>& r, const Vector3<double>& v) {
    const double square = dot(r, r), angle = std::sqrt(square), cosine = std::cos(angle);
    const bool turns = square != 0;
    const double s = turns ? std::sin(angle) / angle : 1, c = turns ? (1 - cosine) / square : 0;
    const double of_s = turns ? (cosine - s) / square : 0, of_c = turns ? (s - 2 * c) / square : 0;
    const double along = dot(r, v);
    const Vector3<double> across = cross(r, v);
    // Row i, column j of the matrices of cross products with r and with v.
    const auto turn = [](const Vector3<double>& of, std::size_t i, std::size_t j) {
      if (i == j) return 0.0;
      return (j + 1) % 3 == i ? of[3 - i - j] : -of[3 - i - j];
    };
    for (std::size_t i = 0; i < 3; ++i) {
      at[i] = v[i] * cosine + across[i] * s + r[i] * along * c;
      for (std::size_t j = 0; j < 3; ++j) {
        const double same = i == j ? 1 : 0;
        by_vector[i][j] = same * cosine + turn(r, i, j) * s + r[i] * r[j] * c;
        by_axis[i][j] = r[j] * (across[i] * of_s + r[i] * along * of_c - v[i] * s) -
                        turn(v, i, j) * s + same * along * c + r[i] * v[j] * c;
      }
    }
  }
};

inline BundleBlock Bundle::hand_block(const Camera<double>& camera, const Vector3<double>& point,
                                      double weight, const std::array<double, 2>& seen) {
  const Rotated rotated({camera[0], camera[1], camera[2]},
                        {point[0] - camera[3], point[1] - camera[4], point[2] - camera[5]});
  const double depth = 1 / rotated.at[2];
  const double at[2] = {rotated.at[0] * depth, rotated.at[1] * depth};
  const double square = at[0] * at[0] + at[1] * at[1], focal = camera[6];
  const double distortion = 1 + square * (camera[9] + square * camera[10]);
  const double slope = 2 * focal * (camera[9] + 2 * square * camera[10]);
  BundleBlock out{};
  for (std::size_t k = 0; k < 2; ++k) {
    std::array<double, 15>& row = out.residuals[k];
    // By the point that the camera sees, divided by its depth.
    double by_x = weight * slope * at[k] * at[0], by_y = weight * slope * at[k] * at[1];
    (k == 0 ? by_x : by_y) += weight * focal * distortion;
    const double by_z = -(by_x * at[0] + by_y * at[1]);
    for (std::size_t j = 0; j < 3; ++j) {
      const auto through = [&](const std::array<Vector3<double>, 3>& by) {
        return depth * (by_x * by[0][j] + by_y * by[1][j] + by_z * by[2][j]);
      };
      row[j] = through(rotated.by_axis);
      row[11 + j] = through(rotated.by_vector);
      row[3 + j] = -row[11 + j];
    }
    row[6] = weight * at[k] * distortion;
    row[7 + k] = weight;
    row[9] = weight * at[k] * focal * square;
    row[10] = row[9] * square;
    row[14] = at[k] * focal * distortion + camera[7 + k] - seen[k];
  }
  out.error = -2 * weight;
  return out;
}

}  // namespace etude::bench::numbers
