// SPDX-License-Identifier: Apache-2.0
// The structure of a segment: ops, attributes, types, who reads what, which inputs die and which
// results are wanted; what its program is made of. It holds no input, so that a program may be made
// while the segment runs, or after.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "etude/graph/graph.h"
#include "etude/lazy/trace.h"

namespace etude::internal {

// A host number of a segment: a constant of the program, or one of its inputs.
struct LazyNumber {
  bool is_input = false;
  std::array<uint64_t, 2> bits{};  // of the constant
};
std::vector<LazyNumber> numbers_of(const LazySegment& segment);

// All of it as words, but for values of numbers. Attributes are compared beside it: their hashes
// stand there.
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
  // What the segments of a family (family.h) have in common: all but sizes and attributes.
  std::vector<uint64_t> common_words(const std::vector<LazyNumber>& numbers) const;
  GraphRef graph(const std::vector<LazyNumber>& numbers) const;

  std::vector<Node> nodes;
  std::vector<uint32_t> operands;  // as in the segment
  std::vector<const Type*> inputs;
  std::vector<uint8_t> given;
  std::vector<Tensor> numbers;
  std::vector<uint32_t> outputs;  // results, numbered through
  CallSite where;
};

}  // namespace etude::internal
