// SPDX-License-Identifier: Apache-2.0
// A benchmark workload: a problem with exact data, check values that several frameworks agree on,
// and the call that is timed. Used by etude-bench. A workload whose check fails is not timed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "etude/core/tensor.h"

namespace etude::bench {

// What setup builds; destroyed by :drop.
class Instance {
 public:
  virtual ~Instance() = default;
  // Values to compare with Workload::expected, computed before anything is timed.
  virtual std::vector<double> check() = 0;
  // One timed call: `units` of the workload's unit.
  virtual void run() = 0;
};

struct Workload {
  std::string name;
  std::vector<double>
      expected;             // empty: compared with a second way of computing it, inside check()
  double tolerance = 2e-3;  // relative
  double units = 1;         // units of one run(); times are given per unit
  std::function<std::unique_ptr<Instance>()> make;
};

// All workloads, by family.
std::vector<Workload> small_workloads();    // add_*, tape*, matmul_many_*, scan
std::vector<Workload> dynamic_workloads();  // l2hmc_*, rnn_fb
std::vector<Workload> network_workloads();  // mlp_*, lenet_*
std::vector<Workload> deep_workloads();     // resnet56_*, transformer
std::vector<Workload> array_workloads();    // ew_*
std::vector<Workload> product_workloads();  // gemm_*, conv3x3_*

// Element i of the data all systems use: splitmix64 of (seed << 32) + i, 24 bits, in [-scale,
// scale).
Tensor hashed(uint64_t seed, const Shape& shape, double scale = 1);
// hashed with scale sqrt(6 / (in + out)).
Tensor glorot(uint64_t seed, const Shape& shape);
// 7 i mod 10.
Tensor labels(int64_t n);
// An orthogonal matrix: two Householder reflections, in double, rounded to float32.
Tensor rotation(int64_t n);
// Per array: the sum of a[i] cos(0.7 i) / sqrt(size) and the mean of |a[i]|.
std::vector<double> digest(const std::vector<Tensor>& arrays);

// Keeps the compiler from dropping what is not used.
void keep(const Tensor& x);

}  // namespace etude::bench
