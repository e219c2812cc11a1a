// SPDX-License-Identifier: Apache-2.0
// Calls of scalar functions in one module: short functions are inlined, long ones exist once and
// are called. Shared by the emitters of programs and of clusters.
#pragma once

#include <map>
#include <span>
#include <utility>

#include <llvm/IR/Module.h>

#include "etude/codegen/llvm/ir_math.h"

namespace etude::codegen {

// Functions with more instructions are not inlined, but called once per vector.
inline constexpr int kMostInline = 100;
// Inside a function of more than kMostInBody instructions, all functions of more than kFewInline
// instructions are called, since compile time grows faster than the code.
inline constexpr int kMostInBody = 1500;
inline constexpr int kFewInline = 12;

// The attributes of every function of generated code.
void set_attributes(llvm::Function& function);

class FunctionCalls {
 public:
  FunctionCalls(llvm::Module& module, int most_inline)
      : module_(module), most_inline_(most_inline) {}

  llvm::Value* call(const IrPlace& place, scalar::Fn fn, std::span<llvm::Value* const> args);

 private:
  llvm::Function* shared(internal::Isa isa, scalar::Fn fn);

  llvm::Module& module_;
  int most_inline_;
  std::map<std::pair<internal::Isa, scalar::Fn>, llvm::Function*> shared_;
};

}  // namespace etude::codegen
