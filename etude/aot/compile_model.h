// SPDX-License-Identifier: Apache-2.0
// Compiles graphs ahead of time: a relocatable file with a function in C for each, which needs libc
// and libm and nothing of Etude. What runs are the kernels of the graph's plan, taken out of an
// archive of the very objects that this library is linked from, and machine code of codegen/ for
// scalar programs; so its results are those of the plan, bit for bit (docs/design/0019).
//
// Products that a plan gives to oneDNN are done by our own kernels: see docs/ahead_of_time.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "etude/graph/graph.h"
#include "etude/kernels/cpu/simd/math_table.h"

namespace etude::aot {

enum class Machine { kThis, kArm64 };

// Whether the kernel of a call with these runs plans of graphs: such a call cannot be compiled.
bool runs_graphs(const Attrs& attrs);

// What a caller of the function has to know (header_text.h writes it down).
struct ModelFacts {
  std::string name;  // of its function, an identifier of C
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

// The archives that kernels are taken from. In memory for as long as this is.
class KernelArchives {
 public:
  // Those beside this program or its library.
  //
  // throws: kNotFound, saying what was looked for; kDataLoss.
  explicit KernelArchives(Machine machine = Machine::kThis);
  KernelArchives(const KernelArchives&) = delete;
  KernelArchives& operator=(const KernelArchives&) = delete;
  ~KernelArchives();

 private:
  friend class ModelCompiler;
  struct Content;
  std::unique_ptr<const Content> content_;
};

// One file of one or several models. confined to one thread.
class ModelCompiler {
 public:
  // For the best instruction set that this process uses (ETUDE_ISA).
  //
  // throws: kFailedPrecondition in a program without record_blocks.cc; kUnimplemented in a build
  //         that makes no machine code, saying why.
  explicit ModelCompiler(const KernelArchives& archives);
  ModelCompiler(const ModelCompiler&) = delete;
  ModelCompiler& operator=(const ModelCompiler&) = delete;
  ~ModelCompiler();

  // A function NAME_run for the graph.
  //
  // throws: kInvalidArgument for a name that C would not take; kUnimplemented, naming the op and
  //         its line, for a call that cannot be compiled: one with an effect outside, or whose
  //         kernel needs the library.
  // cost:   that of a plan, and milliseconds for each scalar program.
  ModelFacts add(const std::string& name, const Graph& graph);

  // throws: kUnimplemented, naming what is missing. Once.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace etude::aot
