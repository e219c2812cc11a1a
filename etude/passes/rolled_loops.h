// SPDX-License-Identifier: Apache-2.0
// Which stretches of a graph's nodes are the steps of a loop, and how its steps read: what roll.cc
// makes loops of. Nothing is made here.
//
// Invariant: all steps of a loop have the same ops with the same attributes and types in the same
// order, and each operand of a step is, in every step alike, one of these:
// * the result of an earlier node of the same step;
// * a result of the step before: carried. The first step has a value from outside in its place;
// * one and the same value from outside: an invariant;
// * a value from outside that differs from step to step: a row.
// A stretch where that does not hold, for one operand of one step, is cut there or is none.
// One kind of node is no part of the steps among which it stands: one that reads inputs of the
// graph alone, with attributes that differ from step to step, such as a row of a batch. It comes
// before the loop, and what it gives is from outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "etude/graph/graph.h"

namespace etude::internal {

struct RolledLoop {
  enum class From : uint8_t { kStep, kCarried, kSame, kRow };
  struct Read {
    From from = From::kStep;
    uint32_t index = 0;  // a value of the first step, or a place in the list of its kind
  };
  struct Carried {
    GraphValue result;  // of the first step: what the next one reads
    GraphValue start;   // what the first step reads
    bool operator==(const Carried&) const = default;
  };
  struct Row {
    std::vector<GraphValue> values;  // by step
    // Where these are what steps of an earlier loop gave, one behind the other: that loop, and its
    // rows from `first` on.
    int32_t loop = -1;
    uint32_t kept = 0;
    std::size_t first = 0;
  };

  std::size_t first = 0, period = 0, count = 0;  // nodes of a step, and steps
  GraphValue first_value = 0;
  uint32_t values = 0;          // of a step
  std::vector<Read> reads;      // by operand of the first step, in the order of its nodes
  std::vector<bool> is_before;  // by node of a step: whether it comes before the loop
  std::vector<Carried> carried;
  std::vector<GraphValue> same;
  std::vector<Row> rows;
  // Results of the first step of which nodes behind the loop read those of several steps.
  std::vector<GraphValue> kept;
  bool is_reverse = false;  // the last row is that of the first step

  std::size_t end() const { return first + period * count; }
  GraphValue value(GraphValue of_first, std::size_t step) const {
    return of_first + static_cast<GraphValue>(step * values);
  }
  std::size_t row_of(std::size_t step) const { return is_reverse ? count - 1 - step : step; }
};

// More bytes are not copied to have rows in one tensor, or one tensor as rows.
inline constexpr int64_t kMostCopiedRows = 256 << 10;

// The loops of the graph, in its order. No node with a true entry in `stays` is of one.
std::vector<RolledLoop> find_loops(const Graph& graph, const std::vector<bool>& stays);

}  // namespace etude::internal
