// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/workloads/values.h"
#include "benchmarks/workloads/workload.h"

namespace etude::bench {

Tensor hashed(uint64_t seed, const Shape& shape, double scale) {
  return Tensor(hashed_values(seed, static_cast<std::size_t>(shape.count()), scale), shape);
}

Tensor glorot(uint64_t seed, const Shape& shape) {
  return hashed(seed, shape, glorot_scale(shape.to_vector()));
}

Tensor labels(int64_t n) { return Tensor(label_values<int32_t>(n)); }

Tensor rotation(int64_t n) { return Tensor(rotation_values(static_cast<std::size_t>(n)), {n, n}); }

std::vector<double> digest(const std::vector<Tensor>& arrays) {
  std::vector<double> out;
  for (const Tensor& array : arrays) add_digest(out, array.to_vector<double>());
  return out;
}

void keep(const Tensor& x) {
  const void* volatile sink = x.ref();
  static_cast<void>(sink);
}

}  // namespace etude::bench
