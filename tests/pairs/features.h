// SPDX-License-Identifier: Apache-2.0
// The table of features: wrappers and situations. A feature runs a function of a vector on a
// vector, by the library in `runs`, and by definition in `means`.
#pragma once

#include <exception>
#include <functional>
#include <span>

#include "etude/etude.h"
#include "tests/pairs/judge.h"

namespace pairs {

// The features of exceptions throw and catch it; no feature catches it by a base.
struct InTheMiddle : std::exception {
  const char* what() const noexcept override { return "an exception in the middle"; }
};

// The world of a run by the library.
struct LibraryRun {
  using V = etude::Tensor;
  using Map = std::function<etude::Tensor(const etude::Tensor&)>;
  struct Fields {
    etude::Tensor a, b;
  };
  etude::Tensor captured;
  etude::Variable variable;
  Fields fields;
  etude::Variable state;  // assigned by programs
  int throws_in = 0;      // which call inside of a feature throws when it has run; 0: none
};

struct Feature {
  const char* name;
  etude::Tensor (*runs)(LibraryRun& run, const LibraryRun::Map& f, const etude::Tensor& x);
  Numbers (*means)(JudgeRun& run, const JudgeRun::Map& f, const Numbers& x);
  double tolerance = 1e-9;  // of results, relative to the largest
  // A graph with it has first derivatives alone: programs with it are measured without the second.
  bool is_first_order = false;
};

std::span<const Feature> features();
// The features in surroundings.cc.
std::span<const Feature> surroundings();

}  // namespace pairs
