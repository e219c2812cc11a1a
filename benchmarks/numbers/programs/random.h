// SPDX-License-Identifier: Apache-2.0
// Data of the programs: numbers that depend on a seed only, the same with every standard library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace etude::bench::numbers {

// Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014 (SplitMix64).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // Evenly spread over [low, high).
  double uniform(double low, double high) {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return low + (high - low) * (static_cast<double>(z >> 11) * 0x1p-53);
  }
  std::vector<double> uniforms(std::size_t count, double low, double high) {
    std::vector<double> values(count);
    for (double& value : values) value = uniform(low, high);
    return values;
  }

 private:
  uint64_t state_;
};

}  // namespace etude::bench::numbers
