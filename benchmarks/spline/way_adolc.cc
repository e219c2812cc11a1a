// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <vector>

#include "benchmarks/numbers/adolc.h"
#include "benchmarks/spline/generic.h"
#include "benchmarks/spline/ways.h"

namespace etude::bench::spline {

#ifdef ETUDE_HAVE_ADOLC

namespace {

template <class C>
struct LossInList {
  const Problem<double>& problem;
  std::array<adouble, 1> operator()(const std::vector<adouble>& p) const {
    return {Loss<double, C, Squares>{problem}(p)};
  }
};

// The same generic function, recorded again for each gradient as segments could change.
template <class T, class C, class M>
class Adolc final : public Generic<double, C, Squares> {
 public:
  explicit Adolc(const Problem<double>& problem)
      : Generic<double, C, Squares>(problem), tape_({problem}, problem.controls, 1) {}
  double value_with_gradient(const std::vector<double>& p, std::vector<double>& slope) override {
    tape_.record(p.data());
    double weight = 1;
    tape_.reverse(&weight, slope.data());
    return 0;  // the loss, which is not read here
  }

 private:
  numbers::AdolcTape<LossInList<C>> tape_;
};

}  // namespace

std::unique_ptr<Objective<double>> make_adolc(const Problem<double>& problem) {
  if (problem.measure != Measure::squares) return nullptr;  // it has no log1p
  return make_way<Adolc>(problem);
}

#else

std::unique_ptr<Objective<double>> make_adolc(const Problem<double>&) { return nullptr; }

#endif

}  // namespace etude::bench::spline
