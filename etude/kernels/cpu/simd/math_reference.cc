// SPDX-License-Identifier: Apache-2.0

#include "etude/kernels/cpu/simd/math_reference.h"

#include <cmath>

namespace etude::internal {
namespace {

double minimum(double x, double y) { return std::isnan(x) ? x : x < y ? x : y; }
double maximum(double x, double y) { return std::isnan(x) ? x : x > y ? x : y; }

using std::copysign;

#define UNARY(name, ulp, ...)                                 \
  {                                                           \
    name, ulp, [](double x) -> double { return __VA_ARGS__; } \
  }
#define BINARY(name, ulp, ...)                                                   \
  {                                                                              \
    name, ulp, nullptr, [](double x, double y) -> double { return __VA_ARGS__; } \
  }

const MathReference kReferences[] = {
    UNARY("abs", 0, std::abs(x)),          UNARY("neg", 0, -x),
    UNARY("floor", 0, std::floor(x)),      UNARY("ceil", 0, std::ceil(x)),
    UNARY("trunc", 0, std::trunc(x)),      UNARY("round", 0, std::nearbyint(x)),
    UNARY("sqrt", 0.5, std::sqrt(x)),      UNARY("exp", 2, std::exp(x)),
    UNARY("exp2", 2, std::exp2(x)),        UNARY("exp10", 2, std::pow(10.0, x)),
    UNARY("expm1", 2, std::expm1(x)),      UNARY("sigmoid", 2, 1 / (1 + std::exp(-x))),
    UNARY("tanh", 2, std::tanh(x)),        UNARY("erf", 2, std::erf(x)),
    UNARY("log", 2, std::log(x)),          UNARY("log2", 2, std::log2(x)),
    UNARY("log10", 2, std::log10(x)),      UNARY("log1p", 2, std::log1p(x)),
    UNARY("sin", 2, std::sin(x)),          UNARY("cos", 2, std::cos(x)),
    BINARY("minimum", 0, minimum(x, y)),   BINARY("maximum", 0, maximum(x, y)),
    BINARY("copysign", 0, copysign(x, y)),
};

}  // namespace

std::span<const MathReference> math_references() { return kReferences; }

const MathReference* find_reference(std::string_view name) {
  for (const MathReference& reference : kReferences) {
    if (reference.name == name) return &reference;
  }
  return nullptr;
}

std::vector<MathReference> references_of_arity(int arity) {
  std::vector<MathReference> found;
  for (const MathReference& reference : kReferences) {
    if ((reference.unary != nullptr ? 1 : 2) == arity) found.push_back(reference);
  }
  return found;
}

}  // namespace etude::internal
