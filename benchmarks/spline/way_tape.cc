// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>
#include <vector>

#include "benchmarks/spline/generic.h"
#include "benchmarks/spline/ways.h"
#include "etude/diff.h"

namespace etude::bench::spline {
namespace {

// Nothing but the generic function: every call of the loop is recorded.
template <class T, class C, class M>
class Tape final : public Generic<T, C, M> {
 public:
  using Generic<T, C, M>::Generic;
  T value_with_gradient(const std::vector<T>& p, std::vector<T>& slope) override {
    auto [value, gradient] = etude::value_with_gradient(Loss<T, C, M>{this->problem_}, p);
    slope = std::move(gradient);
    return value;
  }
};

}  // namespace

template <class T>
std::unique_ptr<Objective<T>> make_tape(const Problem<T>& problem) {
  return make_way<Tape>(problem);
}
template std::unique_ptr<Objective<float>> make_tape(const Problem<float>& problem);
template std::unique_ptr<Objective<double>> make_tape(const Problem<double>& problem);

}  // namespace etude::bench::spline
