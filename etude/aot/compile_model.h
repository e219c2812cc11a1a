// SPDX-License-Identifier: Apache-2.0
// Compiles graphs ahead of time, to a relocatable file with a C function for each graph. The file
// needs libc and libm and no part of Etude. A function runs the kernels of the plan of its graph,
// and machine code of codegen/ for scalar programs. The kernels come from an archive of the same
// objects as this library, so the function and the plan compute the same bits (docs/design/0019).
//
// Matrix products that a plan passes to oneDNN use Etude's own kernels here: see
// docs/ahead_of_time.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "etude/graph/graph.h"
#include "etude/kernels/cpu/simd/math_table.h"

namespace etude::aot {

enum class Machine { kThis, kArm64 };

// Whether the kernel of a call with these attributes runs plans of graphs. Such a call cannot be
// compiled.
bool runs_graphs(const Attrs& attrs);

// The facts that a caller of the function needs (header_text.h writes them down).
struct ModelFacts {
  std::string name;  // of its function, a C identifier
  std::string graph;
  struct Array {
    std::string name;
    const Type* type = nullptr;
  };
  std::vector<Array> inputs, outputs;  // without absent outputs
  uint64_t scratch_bytes = 0;
  internal::Isa isa = internal::Isa::kPortable;
  Machine machine = Machine::kThis;
};

// The archives with the kernels. They remain in memory as long as this object exists.
class KernelArchives {
 public:
  // The archives next to this program or its library.
  //
  // throws: kNotFound, with the searched places; kDataLoss.
  explicit KernelArchives(Machine machine = Machine::kThis);
  KernelArchives(const KernelArchives&) = delete;
  KernelArchives& operator=(const KernelArchives&) = delete;
  ~KernelArchives();

 private:
  friend class ModelCompiler;
  struct Content;
  std::unique_ptr<const Content> content_;
};

// Makes one file with one or several models.
// threads: confined to one thread.
class ModelCompiler {
 public:
  // Compiles for the best instruction set that this process uses (ETUDE_ISA).
  //
  // throws: kFailedPrecondition in a program without record_blocks.cc; kUnimplemented, with the
  //         reason, in a build without code generation.
  explicit ModelCompiler(const KernelArchives& archives);
  ModelCompiler(const ModelCompiler&) = delete;
  ModelCompiler& operator=(const ModelCompiler&) = delete;
  ~ModelCompiler();

  // Adds a function NAME_run for the graph.
  //
  // throws: kInvalidArgument for a name that is not a C identifier; kUnimplemented, naming the op
  //         and its line, for a call that cannot be compiled: it has an effect outside the graph,
  //         or its kernel needs the library.
  // cost:   as for a plan, and milliseconds for each scalar program.
  ModelFacts add(const std::string& name, const Graph& graph);

  // Adds the functions NAME_error and NAME_refuse_size for a function NAME that chooses among
  // models (header_text.h).
  void add_choice(const std::string& name);

  // Returns the file. Call it once. throws: kUnimplemented, naming the missing symbol.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace etude::aot
