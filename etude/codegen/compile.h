// SPDX-License-Identifier: Apache-2.0
// Machine code for scalar programs on float32: one function per program, with the bits of the
// precompiled kernels (kernels/cpu/simd/program.inc), compiled at run time. For programs without a
// record; programs of records are compiled with the library.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "etude/base/scalars/scalar_program.h"
#include "etude/core/op/tier.h"
#include "etude/kernels/cpu/simd/math_table.h"
#include "etude/plan/cluster_code.h"

namespace etude::codegen {

using internal::Tier;  // kFast or kBest

// kDense: all operands have n elements. kStrided: each has n elements or one.
enum class Layout { kDense, kStrided };

// The result has the same bits for all options.
struct CompileOptions {
  Tier tier = Tier::kBest;
  Layout layout = Layout::kDense;
  internal::Isa isa = internal::best_isa();  // 16, 8 or 4 lanes
  friend bool operator==(const CompileOptions&, const CompileOptions&) = default;
};

// out[i] = program(in[0][i], ...) for i < n; bools are bytes, 0 or 1, all other values are float32.
// `out` may be an operand. Neither reads nor writes beyond n elements. threads: any.
using DenseKernel = void (*)(void* out, const void* const* in, const double* params, std::size_t n);
// The same with in[k][i * strides[k]]; a stride is 0 or 1.
using StridedKernel = void (*)(void* out, const void* const* in, const std::size_t* strides,
                               const double* params, std::size_t n);

// Code made by a backend. The destructor frees the code.
class Code {
 public:
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  virtual ~Code() = default;
  virtual void* entry() const = 0;
  virtual std::size_t object_bytes() const = 0;
};

// A handle to the code of a program, cheap to copy. The code is freed with the last handle: keep a
// handle as long as a kernel. threads: thread-compatible; kernels run on any thread.
class CompiledProgram {
 public:
  CompiledProgram(std::shared_ptr<const Code> code, const CompileOptions& options)
      : code_(std::move(code)), options_(options) {}

  // Null unless the program was compiled for this layout.
  DenseKernel dense() const {
    return options_.layout == Layout::kDense ? reinterpret_cast<DenseKernel>(code_->entry())
                                             : nullptr;
  }
  StridedKernel strided() const {
    return options_.layout == Layout::kStrided ? reinterpret_cast<StridedKernel>(code_->entry())
                                               : nullptr;
  }
  const std::shared_ptr<const Code>& code() const { return code_; }
  const CompileOptions& options() const { return options_; }
  // The size of the object file of this code: code, constants, symbols.
  std::size_t object_bytes() const { return code_->object_bytes(); }
  friend bool operator==(const CompiledProgram& a, const CompiledProgram& b) {
    return a.code_ == b.code_;
  }

 private:
  std::shared_ptr<const Code> code_;
  CompileOptions options_;
};

// Whether this build generates code (-DETUDE_CODEGEN). If not, the functions below throw.
bool is_available();

// throws:  kInvalidArgument for an invalid program (an operand after its use, a bool where a number
//          is needed, too many nodes), or an instruction set that this machine lacks;
//          kUnimplemented for a function without a float32 kernel, or a build without LLVM;
//          kUnavailable if the compiling process ended or took too long (worker.h).
// threads: thread-safe; one request is served at a time.
// cost:    milliseconds (codegen_bench.cc); the first one in a process takes longer.
CompiledProgram compile(const scalar::Program& program, const CompileOptions& options = {});

// The same with a cache. A process compiles equal programs with equal options once, even if several
// threads request them at the same time. Files serve later processes of this user (object_cache.h).
// The process caches the 256 most recently used programs.
CompiledProgram compile_cached(const scalar::Program& program, const CompileOptions& options = {});

// Registers the handlers of fork() for that cache, at the first call (serve.h).
void prepare_cache_for_forks();

// The same for a cluster (plan/cluster.h); `layout` is ignored.
struct CompiledCluster {
  internal::ClusterCode::Run run() const {
    return reinterpret_cast<internal::ClusterCode::Run>(code->entry());
  }
  std::shared_ptr<const Code> code;
};
// throws: kInternal for an invalid cluster.
CompiledCluster compile_cluster(const internal::Cluster& cluster,
                                const CompileOptions& options = {});
std::string cluster_ir_text(const internal::Cluster& cluster, const CompileOptions& options = {},
                            bool optimized = true);
std::string cluster_assembly_text(const internal::Cluster& cluster,
                                  const CompileOptions& options = {});

// The code as text for people: LLVM IR before and after its passes, and assembly.
std::string ir_text(const scalar::Program& program, const CompileOptions& options = {},
                    bool optimized = true);
std::string assembly_text(const scalar::Program& program, const CompileOptions& options = {});

}  // namespace etude::codegen
