// SPDX-License-Identifier: Apache-2.0
// Source: one graph of a saved function, with the names of its inputs and results and the values of
// its state. Writers of other formats read functions in this form: etude/onnx, etude/stablehlo,
// `etude convert`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "etude/core/tensor.h"
#include "etude/graph/graph.h"
#include "etude/graph/size_formula.h"
#include "etude/saved/content.h"
#include "etude/saved/saved.h"

namespace etude::saved::internal {

// An input of the graph: passed by the caller, or fixed.
struct SourceInput {
  std::string name;
  Tensor value;  // absent: passed by the caller
  bool is_key = false;
  int64_t variable = -1;  // the Variable whose value it is; the name is its path
};

// A size that callers choose, and an input that has it.
struct OpenSize {
  std::string name;   // "n"
  std::string input;  // its name
  int64_t axis = 0;
};

struct Source {
  std::string function;
  std::string made_for;  // the line of the call that the graph was traced for
  std::vector<SourceInput> inputs;
  std::vector<std::string> outputs;  // of the first outputs of the graph: its results
  // The graph at several sizes, for open sizes; else one graph. The traced graphs come first.
  std::vector<GraphRef> graphs;
  std::size_t traced = 1;
  etude::internal::SizePoints points;
  std::vector<OpenSize> sizes;
};

// The options of writers; their SaveOptions have the same names.
struct SourceOptions {
  std::string format;  // for messages: "a model of ONNX"
  std::string function = {};
  int64_t graph = 0;
  bool training = false;
  // Whether sizes that vary stay open. Otherwise the graph has the sizes of the first call, or
  // the sizes in `sizes`, by name.
  bool open_sizes = false;
  std::map<std::string, int64_t> sizes = {};
};

// `prefix` begins the names of a loaded program and its state, and is left out.
//
// throws: kUnimplemented for a function that changes state; kFailedPrecondition for a function
//   without a graph, or with state without a value; kNotFound for an unknown function;
//   kInvalidArgument for an unknown graph, for several functions without a name in the options, and
//   for sizes that the graph does not have or does not take.
Source source_of(const Content& content, const std::string& prefix, const SourceOptions& options);
// The same for entries of saved::save(). The names of a loaded program lose its prefix.
Source source_of(const std::vector<Entry>& entries, const SourceOptions& options);

// The name, or the first of name_2, name_3, ... that is not in `used`, which gets it.
std::string unique_name(const std::string& name, std::set<std::string>& used);

// The names of the sizes that vary, and the sizes that source_of() fixes; empty if they stay open.
// throws: as source_of(), for the choice of the function, of the graph and of the sizes.
std::vector<std::pair<std::string, int64_t>> fixed_sizes(const Content& content,
                                                         const std::string& prefix,
                                                         const SourceOptions& options);

}  // namespace etude::saved::internal
