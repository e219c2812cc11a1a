// SPDX-License-Identifier: Apache-2.0
// The choice of the graph for a call of a loaded function. Used by function.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/base/internal/inline_vector.h"
#include "etude/core/device.h"
#include "etude/parts/parts.h"
#include "etude/saved/loaded.h"
#include "etude/saved/saved.h"

namespace etude::saved::internal {

// One leaf of the arguments of a call: a tensor, a Variable or a host value.
struct CallLeaf {
  std::string path;  // "batch/image"
  std::size_t argument = 0;
  Tensor* tensor = nullptr;  // no value: absent
  const Variable* variable = nullptr;
  const Described* host = nullptr;
};

// The type of the elements without their device, which graphs do not fix.
inline const Type* type_at_home(const Tensor& x) { return x.type()->on(Device()); }

// The leaves of arguments by name or by position, in the order of the parameters.
// throws: kInvalidArgument for a name that is no parameter, and for a missing or superfluous one.
std::vector<CallLeaf> leaves_of(const SavedFunction& function, Parts& arguments);

// A graph, and the arguments that it takes from the call.
struct Match {
  const SavedGraph* graph = nullptr;
  TraceRef trace;
  std::vector<Tensor*> tensors = {};     // by tensor of the graph; null: absent, or state
  std::vector<Variable> variables = {};  // the Variables among the arguments
  std::vector<std::unique_ptr<Tensor>> converted = {};  // numbers that became tensors
};
// Whether a call states host values, or takes the values of the graph.
enum class HostValues : uint8_t { kOfCall, kOfGraph };
// The graph for these arguments. A graph for exactly these types comes first, then a graph for many
// sizes, then a graph that fits after numbers became tensors.
// throws: see Function::operator().
Match find_graph(const Loaded& program, std::size_t function, const std::vector<CallLeaf>& leaves,
                 HostValues hosts = HostValues::kOfCall);

// The trace of the graph for inputs of these types; null if it has none.
TraceRef trace_for(const Loaded& program, const LoadedGraph& graph,
                   const std::vector<const Type*>& types);
// The same for a plain graph and the arguments of a call; null too if state has other types.
TraceRef trace_of_plain(const Loaded& program, const LoadedGraph& graph,
                        std::span<const Tensor* const> arguments);
// The same for a plain graph that changes no state. Reads the values of its state, in order.
using StateValues = etude::internal::InlineVector<Tensor, 6>;
TraceRef trace_of_pure(const Loaded& program, const LoadedGraph& graph,
                       std::span<const Tensor* const> arguments, StateValues& state,
                       CallSite where);

GraphSignature signature_of(const Content& content, const SavedGraph& graph);

}  // namespace etude::saved::internal
