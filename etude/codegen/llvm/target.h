// SPDX-License-Identifier: Apache-2.0
// From an LLVM module to machine code: passes, object files, assembler texts.
#pragma once

#include <memory>
#include <string>

#include <llvm/IR/Module.h>
#include <llvm/Support/MemoryBuffer.h>

#include "etude/codegen/compile.h"

namespace etude::codegen {

// A separate compiler instance: one thread at a time uses it. Taken from a pool and returned to it.
class Target {
 public:
  // throws: kInternal when LLVM has no such target; kUnimplemented for a target that was not
  //         built in, and for code of other than 4 lanes for a 64-bit Arm.
  // For the machine that this thread emits for (ir_math.h).
  explicit Target(const CompileOptions& options);
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  ~Target();

  // The processor that code is made for, with its features.
  static std::string machine_text();

  // Sets the target properties of the module, and runs the passes of the tier.
  void optimize(llvm::Module& module) const;
  std::unique_ptr<llvm::MemoryBuffer> object(llvm::Module& module) const;
  std::string assembly(llvm::Module& module) const;

 private:
  struct Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace etude::codegen
