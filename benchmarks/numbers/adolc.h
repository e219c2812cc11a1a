// SPDX-License-Identifier: Apache-2.0
// Gradients by ADOL-C, a peer that overloads operators and tapes them as well. Without it, or
// where ETUDE_HAVE_ADOLC is not defined, its columns stay empty.
#pragma once

#include "benchmarks/numbers/harness.h"

#ifdef ETUDE_HAVE_ADOLC

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <adolc/adolc.h>

namespace etude::bench::numbers {

// f, a function of n adouble with m results, on its own tape. The buffers have exactly the size of
// the record of f, so that nothing goes to files and no page is touched in vain.
template <class F>
class AdolcTape {
 public:
  // throws: std::bad_alloc where the buffers do not fit.
  AdolcTape(F f, std::size_t inputs, std::size_t results)
      : f_(std::move(f)), inputs_(inputs), results_(results), tag_(next_tag()), lifted_(inputs) {}
  AdolcTape(const AdolcTape&) = delete;
  AdolcTape& operator=(const AdolcTape&) = delete;
  ~AdolcTape() { removeTape(tag_, ADOLC_REMOVE_COMPLETELY); }

  // Records f at x with all that the way back needs. `read` is given the results.
  void record(const double* x) {
    if (!is_measured_) measure(x);
    trace_on(tag_, 1, sizes_[0], sizes_[1], sizes_[2], sizes_[3]);
    run(x);
    trace_off();
  }
  // A reverse pass over the latest recording or evaluation.
  void reverse(double* weights, double* out) {
    fos_reverse(tag_, count(results_), count(inputs_), weights, out);
  }
  void reverse(double** weights, double** out) {
    fov_reverse(tag_, count(results_), count(inputs_), count(results_), weights, out);
  }
  // Evaluates the tape at x, branches as they were.
  void evaluate(const double* x, double* results) {
    zos_forward(tag_, count(results_), count(inputs_), 1, x, results);
  }

 private:
  static int count(std::size_t n) { return static_cast<int>(n); }
  static short next_tag() {
    static short last = 0;
    return ++last;
  }
  void run(const double* x) {
    for (std::size_t i = 0; i < inputs_; ++i) lifted_[i] <<= x[i];
    double value = 0;
    for (adouble& result : f_(lifted_)) result >>= value;
  }
  void measure(const double* x) {
    trace_on(tag_, 1);
    run(x);
    trace_off();
    std::array<std::size_t, STAT_SIZE> stats{};
    tapestats(tag_, stats.data());
    const std::size_t entries[] = {NUM_OPERATIONS, NUM_LOCATIONS, NUM_VALUES, TAY_STACK_SIZE};
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      sizes_[i] = static_cast<unsigned>(stats[entries[i]] + 1024);
    }
    removeTape(tag_, ADOLC_REMOVE_COMPLETELY);
    is_measured_ = true;
  }

  F f_;
  std::size_t inputs_, results_;
  short tag_;
  std::vector<adouble> lifted_;
  bool is_measured_ = false;
  std::array<unsigned, 4> sizes_{};
};

// Fills in the columns of ADOL-C for f, a function of a vector of numbers with one number.
template <class F>
void add_adolc(Case& program, const F& f) {
  const auto on_list = [f](const std::vector<adouble>& x) { return std::array<adouble, 1>{f(x)}; };
  const std::vector<double>& x = program.parameters;
  const auto make = [&] {
    return std::make_shared<AdolcTape<decltype(on_list)>>(on_list, x.size(), 1);
  };
  program.adolc = contender([tape = make(), x] {
    tape->record(x.data());
    double weight = 1;
    std::vector<double> out(x.size());
    tape->reverse(&weight, out.data());
    return out;
  });
  const auto kept = make();
  kept->record(x.data());
  program.adolc_again = contender([kept, x] {
    double value = 0, weight = 1;
    kept->evaluate(x.data(), &value);
    std::vector<double> out(x.size());
    kept->reverse(&weight, out.data());
    return out;
  });
}

}  // namespace etude::bench::numbers

#else

namespace etude::bench::numbers {

template <class F>
void add_adolc(Case&, const F&) {}

}  // namespace etude::bench::numbers

#endif
