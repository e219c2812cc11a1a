// SPDX-License-Identifier: Apache-2.0
// The functions of scalar programs as LLVM instructions, on vectors of 16, 8 or 4 floats: the
// formulas of kernels/cpu/simd, run on symbolic registers. A bool is a vector of i1.
#pragma once

#include <span>

#include <llvm/IR/IRBuilder.h>

#include "etude/base/scalars/expression.h"
#include "etude/codegen/request.h"
#include "etude/kernels/cpu/simd/math_table.h"

namespace etude::codegen {

enum class MachineKind { kThis, kArm64 };

// The target machine for which this thread emits modules. The emitter needs it, since each machine
// has its own intrinsics.
inline thread_local constinit MachineKind emitted_kind = MachineKind::kThis;
inline bool is_for_x86() {
#if defined(__x86_64__)
  return emitted_kind == MachineKind::kThis;
#else
  return false;
#endif
}

// The insertion point for a function: the position of the builder, which is after the emitted code
// afterwards. Emitted code may add blocks.
struct IrPlace {
  llvm::IRBuilder<>* builder;
  internal::Isa isa;

  unsigned lanes() const { return static_cast<unsigned>(internal::lanes(isa)); }
  llvm::Module& module() const { return *builder->GetInsertBlock()->getModule(); }
  llvm::Function& function() const { return *builder->GetInsertBlock()->getParent(); }
  llvm::VectorType* float_vector() const {
    return llvm::FixedVectorType::get(builder->getFloatTy(), lanes());
  }
};

// Emits a call of `fn`, with or without kernels, including where, comparisons and logical
// functions.
llvm::Value* emit_call(const IrPlace& place, scalar::Fn fn, std::span<llvm::Value* const> args);

// A number in all lanes, rounded once to float32.
llvm::Value* emit_constant(const IrPlace& place, double number);

// The number of instructions that emit_call makes for a function.
int instruction_count(internal::Isa isa, scalar::Fn fn);

}  // namespace etude::codegen
