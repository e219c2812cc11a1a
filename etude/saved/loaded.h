// SPDX-License-Identifier: Apache-2.0
// A loaded program while it runs: its content, with Variables for its state and the graphs of its
// functions ready to run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "etude/base/internal/fork_lock.h"
#include "etude/saved/content.h"
#include "etude/saved/program.h"
#include "etude/stage/function_core.h"

namespace etude::saved::internal {

using etude::internal::RefPtr;
using etude::internal::Trace;
using etude::internal::TraceRef;

struct Loaded;

// The graphs that ran most recently at sizes of a symbolic graph, under Loaded::traces.
class Instances {
 public:
  // The trace of the graph for these inputs; null if there is none.
  TraceRef find(const Loaded& program, std::span<const Type* const> inputs) const;
  void add(const Loaded& program, std::vector<const Type*> inputs, TraceRef trace);

 private:
  std::deque<std::pair<std::vector<const Type*>, TraceRef>> made_;
};

// The trace of a graph of fixed sizes, made at the first use, under Loaded::traces: its plan takes
// as long as the rest of a load, and few programs call the graphs for the sizes 1 and 0.
class LazyTrace {
 public:
  // throws: the errors of make_trace(); the next use then tries again.
  const TraceRef& get(const Loaded& program, const SavedGraph& saved) const;

 private:
  mutable std::atomic<bool> is_made_ = false;
  mutable TraceRef trace_;
};

struct LoadedGraph {
  bool is_symbolic() const { return instances != nullptr; }

  const SavedGraph* saved = nullptr;
  LazyTrace trace = {};                         // of a graph of fixed sizes
  std::unique_ptr<Instances> instances = {};    // of a symbolic graph
  std::vector<const Type*> types = {};          // of the inputs of its sample
  std::size_t first_variable = 0;               // the first input that is a Variable
  bool is_plain = false;                        // from tensors, one for each parameter, to a tensor
  bool changes_state = false;                   // the values of state that are its inputs
  mutable std::atomic<bool> has_state = false;  // a cache of match.cc: all its state has a value
};

class GraphIndex;

struct LoadedFunction {
  std::unique_ptr<etude::internal::FunctionCore> core;
  std::deque<LoadedGraph> graphs;
  std::shared_ptr<const GraphIndex> index = {};  // null for few graphs
};

struct Loaded {
  std::filesystem::path folder;
  Content content;                        // all Variables exist
  std::vector<LoadedFunction> functions;  // in the order of the content
  // A child of fork() finds it open. std::call_once needs thread-locals of libstdc++, for which a
  // process that loads the library late may have no room.
  mutable etude::internal::ForkSafeMutex traces;
};

// Makes the Variables and prepares the graphs.
std::shared_ptr<const Loaded> make_loaded(std::filesystem::path folder, Content content);

// The content of a program. Makes programs of content that no folder holds, such as an imported
// model, and of content that was read already.
struct ProgramAccess {
  // Lives as long as the program.
  static const Content& content_of(const Program& program) { return program.loaded_->content; }
  static Program of(std::shared_ptr<const Loaded> loaded) { return Program(std::move(loaded)); }
  static Program make(std::filesystem::path from, Content content) {
    return Program(make_loaded(std::move(from), std::move(content)));
  }
};

// The types of the inputs of a graph.
std::vector<const Type*> input_types(const Graph& graph);
// The type of an input or result: "float32[n,3]" in a graph for all sizes.
std::string type_text(const SavedGraph& graph, GraphValue value);

// A graph with the trace that runs it, for the types of its arguments.
TraceRef make_trace(const Loaded& program, const SavedGraph& saved, const GraphRef& graph);

}  // namespace etude::saved::internal
