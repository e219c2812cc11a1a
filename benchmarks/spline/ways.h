// SPDX-License-Identifier: Apache-2.0
// The ways to the gradient of the loss, for float and double. Each is one file, so that they
// compile in parallel. A problem outlives the objects made for it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/spline/problem.h"

namespace etude::bench::spline {

template <class T>
std::unique_ptr<Objective<T>> make_hand(const Problem<T>& problem);
template <class T>
std::unique_ptr<Objective<T>> make_terms(const Problem<T>& problem);
template <class T>
std::unique_ptr<Objective<T>> make_scan(const Problem<T>& problem);
template <class T>
std::unique_ptr<Objective<T>> make_tape(const Problem<T>& problem);
// Null without ADOL-C, and where it has no such function.
std::unique_ptr<Objective<double>> make_adolc(const Problem<double>& problem);

template <class T>
struct Way {
  std::string name;
  std::unique_ptr<Objective<T>> objective;
};
// All that there are; the first one is by hand.
template <class T>
std::vector<Way<T>> make_ways(const Problem<T>& problem) {
  std::vector<Way<T>> ways;
  ways.push_back({"hand", make_hand(problem)});
  ways.push_back({"terms", make_terms(problem)});
  ways.push_back({"scan", make_scan(problem)});
  ways.push_back({"tape", make_tape(problem)});
  if constexpr (std::is_same_v<T, double>) {
    if (auto adolc = make_adolc(problem)) ways.push_back({"ADOL-C", std::move(adolc)});
  }
  return ways;
}

}  // namespace etude::bench::spline
