// SPDX-License-Identifier: Apache-2.0
// A loaded function as an object of Python, and the options of exports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "etude/parts/parts.h"
#include "etude/saved/saved.h"
#include "python/src/bind.h"

namespace etude::python {

// Sizes by name, for options of exports and imports.
using NamedSizes = std::vector<std::pair<std::string, int64_t>>;

// The calls that the graphs of a function serve have in common, for one parameter.
struct LoadedParameter {
  std::string name;
  bool is_tensor = false;  // it is one tensor in all graphs, of `dtype` if they agree
  std::optional<DType> dtype;
  bool may_be_none = false;       // a graph has no part of it
  std::optional<Described> only;  // the host value that all graphs have
};

struct LoadedFunction {
  explicit LoadedFunction(saved::Function f);

  saved::Function function;
  std::vector<LoadedParameter> parameters;
  bool has_graph;
};

}  // namespace etude::python
