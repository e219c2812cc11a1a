// SPDX-License-Identifier: Apache-2.0
#include "tests/passes/random_values.h"

#include <cstring>
#include <random>

#include "etude/core/tensor.h"

namespace etude::tests {
namespace {

// Bits of a float with this many of exponent and of mantissa.
uint64_t special_bits(int exponent, int mantissa, uint64_t random) {
  const uint64_t sign = (random & 1) << (exponent + mantissa);
  const uint64_t fraction = (random >> 8) & ((uint64_t{1} << mantissa) - 1);
  const uint64_t all_ones = (uint64_t{1} << exponent) - 1, quiet = uint64_t{1} << (mantissa - 1);
  switch ((random >> 1) % 8) {
    case 0:
      return sign;
    case 1:
      return sign | all_ones << mantissa;
    case 2:
      return sign | all_ones << mantissa | quiet | fraction;
    case 3:
      return sign | all_ones << mantissa | (fraction & (quiet - 1)) | 1;
    case 4:
      return sign | fraction;  // subnormal
    case 5:
      return sign | 1;
    case 6:
      return sign | (all_ones / 2) << mantissa;  // 1
    default:
      return sign | (all_ones / 2 + random % 3) << mantissa | fraction;
  }
}

uint64_t element(DType dtype, uint64_t random, uint64_t bits) {
  if (dtype == kBool) return bits & 1;
  if (random % 4 == 0) return bits;
  switch (dtype) {
    case kFloat16:
      return special_bits(5, 10, bits);
    case kBFloat16:
      return special_bits(8, 7, bits);
    case kFloat32:
    case kComplex64:
      return special_bits(8, 23, bits);
    case kFloat64:
    case kComplex128:
      return special_bits(11, 52, bits);
    default:
      return random % 4 == 1 ? bits % 3 - 1 : bits;  // integers
  }
}

}  // namespace

Tensor random_value(const Type* type, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor out = internal::make_tensor(type);
  const DType dtype = type->dtype();
  const bool is_pair = dtype == kComplex64 || dtype == kComplex128;
  const int64_t item = itemsize(dtype) / (is_pair ? 2 : 1);
  auto* to = static_cast<char*>(TensorAccess::rep(out)->data);
  for (int64_t at = 0; at < type->bytes(); at += item) {
    const uint64_t kind = random(), bits = element(dtype, kind, random());
    std::memcpy(to + at, &bits, static_cast<std::size_t>(item));
  }
  return out;
}

std::vector<Tensor> random_inputs(const Graph& graph, uint64_t seed) {
  std::vector<Tensor> out;
  for (const Graph::Input& input : graph.inputs()) {
    out.push_back(random_value(input.type, seed * 100 + out.size()));
  }
  return out;
}

}  // namespace etude::tests
