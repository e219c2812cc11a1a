// SPDX-License-Identifier: Apache-2.0
// The structure of a segment: ops, attributes, types, edges, dying inputs and wanted results.
// Programs are made from structures. A structure holds no inputs, so a program may be made while
// the segment runs, or later.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "etude/graph/graph.h"
#include "etude/lazy/trace.h"

namespace etude::internal {

// A host number of a segment: a constant or an input of the program.
struct LazyNumber {
  bool is_input = false;
  std::array<uint64_t, 2> bits{};  // of the constant
};
std::vector<LazyNumber> numbers_of(const LazySegment& segment);

// The structure as words, without the values of numbers. Attributes are represented by their hashes
// and compared separately.
std::vector<uint64_t> words_of(const LazySegment& segment);

// A copy that outlives the segment.
struct LazyStructure {
  struct Node {
    const Op* op;
    Attrs attrs;
    CallSite where;
    Types results;
    uint32_t operands;
  };

  explicit LazyStructure(const LazySegment& segment);
  // The part that the segments of a symbolic graph have in common (symbolic_graphs.h): everything
  // except sizes and attributes.
  std::vector<uint64_t> common_words(const std::vector<LazyNumber>& numbers) const;
  GraphRef graph(const std::vector<LazyNumber>& numbers) const;

  std::vector<Node> nodes;
  std::vector<uint32_t> operands;  // as in the segment
  std::vector<const Type*> inputs;
  std::vector<uint8_t> given;
  std::vector<Tensor> numbers;
  std::vector<uint32_t> outputs;  // results, numbered consecutively
  CallSite where;
};

}  // namespace etude::internal
