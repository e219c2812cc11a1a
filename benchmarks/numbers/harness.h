// SPDX-License-Identifier: Apache-2.0
// How a program is measured: its ways to be differentiated are checked against each other and then
// take turns on the clock. Used by the rows_*.cc; not for tensors, which benchmarks/worker.h times.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace etude::bench::numbers {

// Makes the compiler compute `value`, and assume that memory has changed.
template <class T>
inline void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

// A way to compute the value or the gradient of a program. Empty: there is none.
struct Contender {
  std::function<void(int times)> repeat;
  std::function<std::vector<double>()> numbers;  // all its results in one list

  explicit operator bool() const { return static_cast<bool>(repeat); }
};

inline void append(std::vector<double>& out, double x) { out.push_back(x); }
template <class X, std::size_t n>
void append(std::vector<double>& out, const std::array<X, n>& list) {
  for (const X& each : list) append(out, each);
}
template <class K, class X>
void append(std::vector<double>& out, const std::map<K, X>& entries) {
  for (const auto& entry : entries) append(out, entry.second);
}
template <class X>
void append(std::vector<double>& out, const std::vector<X>& list) {
  for (const X& each : list) append(out, each);
}

template <class Fn>
Contender contender(Fn fn) {
  return {[fn](int times) {
            for (int i = 0; i < times; ++i) keep(fn());
          },
          [fn] {
            std::vector<double> out;
            append(out, fn());
            return out;
          }};
}

// A program and the ways to its gradient; `adolc` records a tape for each gradient, as it has to
// where a branch may change, and `adolc_again` evaluates one tape at all points.
struct Case {
  std::string name;
  double aim = 0;            // of gradient / primal; 0: none
  std::size_t elements = 0;  // of a loop, whose gradient is reported for one element
  std::vector<double> parameters;
  Contender primal, gradient, hand, adolc, adolc_again;
  // The value of the program at other parameters, for central differences; may be empty.
  std::function<double(const std::vector<double>&)> value_at;
};

// Median and spread of the time of one call.
struct Timing {
  double seconds = 0, p10 = 0, p90 = 0;
};
struct Clock {
  int rounds = 7;
  double round_seconds = 0.05;
};

// The contenders take turns, each for a round, for `rounds` rounds.
std::vector<Timing> time_in_turns(const std::vector<const Contender*>& contenders,
                                  const Clock& clock);

// The measurement of a case. A time is 0 if there is no such contender.
struct Outcome {
  std::string name;
  std::string fault;  // why it was not timed
  double aim = 0, value = 0;
  std::size_t elements = 0;
  std::vector<double> parameters, derivatives;
  double off_hand = 0, off_adolc = 0, off_differences = 0;  // relative errors; 0: not compared
  Timing primal, gradient, hand, adolc, adolc_again;
};

// Compares the gradients (within 1e-8 of each other, 1e-6 of central differences, relative to the
// largest) and times all ways where they agree.
Outcome measure(const Case& program, const Clock& clock);

}  // namespace etude::bench::numbers
