// SPDX-License-Identifier: Apache-2.0
// log(sum of exp(x)), with the largest number taken out so that nothing overflows.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "benchmarks/numbers/programs/random.h"

namespace etude::bench::numbers {

template <class T>
T log_sum_exp(std::span<const T> x) {
  using std::exp, std::log;
  std::size_t top = 0;
  for (std::size_t i = 1; i < x.size(); ++i) {
    if (x[i] > x[top]) top = i;
  }
  T sum(0);
  for (const T& each : x) sum += exp(each - x[top]);
  return x[top] + log(sum);
}

// The derivatives are exp(x_i) / sum, the softmax of x.
inline void softmax(std::span<const double> x, std::span<double> out) {
  const double total = log_sum_exp(x);
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = std::exp(x[i] - total);
}

struct LogSumExp {
  std::vector<double> parameters = Random(3).uniforms(100'000, -5, 5);

  template <class T>
  T operator()(const std::vector<T>& x) const {
    return log_sum_exp<T>(x);
  }
  // One exponential for each number, as the program has.
  std::vector<double> hand() const {
    const std::vector<double>& x = parameters;
    std::vector<double> out(x.size());
    double top = x[0], sum = 0;
    for (const double each : x) top = each > top ? each : top;
    for (std::size_t i = 0; i < x.size(); ++i) sum += out[i] = std::exp(x[i] - top);
    for (double& each : out) each /= sum;
    return out;
  }
};

}  // namespace etude::bench::numbers
