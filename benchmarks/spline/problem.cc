// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/spline/problem.h"

#include "benchmarks/numbers/programs/random.h"

namespace etude::bench::spline {
namespace {

using numbers::Random;

constexpr int kUsers = 200;
constexpr double kNoise = 0.05;

struct User {
  double amplitude, shift;
  double y(double x) const { return amplitude * std::tanh(3 * (x + shift) - 1); }
};
User make_user(Random& random) {
  const double amplitude = random.uniform(0.8, 1.2);
  return {amplitude, random.uniform(-0.1, 0.1)};
}
// Of deviation kNoise; the sum of four uniform numbers is as good as normal here.
double noise(Random& random) {
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += random.uniform(-0.5, 0.5);
  return kNoise * std::sqrt(3.0) * sum;
}

}  // namespace

Points<double> many_users(std::size_t count) {
  Random random(1);
  std::vector<User> users;
  for (int i = 0; i < kUsers; ++i) users.push_back(make_user(random));
  Points<double> out;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = random.uniform(0, 1);
    out.x.push_back(x);
    out.y.push_back(users[i % kUsers].y(x) + noise(random));
  }
  return out;
}

Points<double> one_user() {
  constexpr std::size_t kPoints = 512;
  constexpr double kClusters[] = {0.12, 0.35, 0.8};
  Random random(2);
  const User user{1.15, -0.08};
  const auto is_gap = [](double x) { return (x > 0.45 && x < 0.6) || x > 0.92; };
  Points<double> out;
  for (std::size_t i = 0; out.x.size() < kPoints; ++i) {
    const double spread = random.uniform(-0.06, 0.06);
    const double x = i % 4 == 3 ? random.uniform(0, 1) : kClusters[i % 4] + spread;
    if (is_gap(x)) continue;
    out.x.push_back(x);
    out.y.push_back(user.y(x) + noise(random));
  }
  return out;
}

void make_labels(Points<double>& data) {
  for (double& y : data.y) y = y > 0.5 ? 1 : 0;
}

}  // namespace etude::bench::spline
