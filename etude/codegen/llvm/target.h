// SPDX-License-Identifier: Apache-2.0
// From an LLVM module to machine code: passes, object files, assembler texts.
#pragma once

#include <memory>
#include <string>

#include <llvm/IR/Module.h>
#include <llvm/Support/MemoryBuffer.h>

#include "etude/codegen/compile.h"

namespace etude::codegen {

// A compiler instance, used by one thread at a time. Instances come from a pool and return to it.
class Target {
 public:
  // throws: kInternal when LLVM has no such target; kUnimplemented for a target that was not
  //         built in, and for code of other than 4 lanes for a 64-bit Arm.
  // Makes an instance for the machine for which this thread emits (ir_math.h).
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
