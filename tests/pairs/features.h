// SPDX-License-Identifier: Apache-2.0
// The table of features: wrappers and situations. A feature runs a function of a vector on a
// vector, by the library in `runs`, and by definition in `means`.
#pragma once

#include <functional>
#include <span>

#include "etude/etude.h"
#include "tests/pairs/judge.h"

namespace pairs {

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
  etude::Variable state;  // what programs assign
};

struct Feature {
  const char* name;
  etude::Tensor (*runs)(LibraryRun& run, const LibraryRun::Map& f, const etude::Tensor& x);
  Numbers (*means)(JudgeRun& run, const JudgeRun::Map& f, const Numbers& x);
};

std::span<const Feature> features();

}  // namespace pairs
