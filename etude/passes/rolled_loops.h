// SPDX-License-Identifier: Apache-2.0
// Finds the stretches of nodes of a graph that are steps of a loop, and the sources of the operands
// of these steps. roll.cc makes loops from them. Does not change the graph.
//
// Invariant: all steps of a loop have the same ops with the same attributes and types in the same
// order. Each operand has a source of one of these kinds, and the same kind in every step:
// * the result of an earlier node of the same step;
// * a result of the previous step: carried. The first step has a value from outside instead;
// * the same outside value in each step: an invariant;
// * an outside value that differs from step to step: a row.
// A stretch that violates this, in one operand of one step, is cut there or is not a loop. An
// exception is a node that reads only inputs of the graph and has different attributes in different
// steps, such as a slice that takes a row of a batch. Such a node is not a part of its step: it
// runs before the loop, and its result is an outside value.
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
    uint32_t index = 0;  // a value of the first step, or an index into the list of its kind
  };
  struct Carried {
    GraphValue result;  // of the first step, read by the next step
    GraphValue start;   // read by the first step
    bool operator==(const Carried&) const = default;
  };
  struct Row {
    std::vector<GraphValue> values;  // by step
    // If these values are consecutive results of steps of an earlier loop: that loop, and its rows
    // from `first` on.
    int32_t loop = -1;
    uint32_t kept = 0;
    std::size_t first = 0;
  };

  std::size_t first = 0, period = 0, count = 0;  // nodes per step, and number of steps
  GraphValue first_value = 0;
  uint32_t values = 0;          // per step
  std::vector<Read> reads;      // by operand of the first step, in the order of its nodes
  std::vector<bool> is_before;  // by node of a step: whether it runs before the loop
  std::vector<Carried> carried;
  std::vector<GraphValue> same;
  std::vector<Row> rows;
  // Results of the first step whose counterparts later nodes read from several steps.
  std::vector<GraphValue> kept;
  bool is_reverse = false;  // the last row belongs to the first step

  std::size_t end() const { return first + period * count; }
  GraphValue value(GraphValue of_first, std::size_t step) const {
    return of_first + static_cast<GraphValue>(step * values);
  }
  std::size_t row_of(std::size_t step) const { return is_reverse ? count - 1 - step : step; }
};

// The maximum number of bytes copied to join rows into a tensor, or to split a tensor into rows.
inline constexpr int64_t kMostCopiedRows = 256 << 10;

// The loops of the graph, in order. Nodes with a true entry in `stays` are in no loop.
std::vector<RolledLoop> find_loops(const Graph& graph, const std::vector<bool>& stays);

}  // namespace etude::internal
