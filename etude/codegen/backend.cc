// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/backend.h"

#include <atomic>

#include <llvm/Support/raw_ostream.h>

#include "etude/codegen/emit.h"
#include "etude/codegen/jit.h"
#include "etude/codegen/target.h"

namespace etude::codegen::backend {

bool is_available() { return true; }

std::shared_ptr<const Code> build(const scalar::Program& program, const CompileOptions& options) {
  static std::atomic<uint64_t> count{0};
  const std::string name = "etude_kernel_" + std::to_string(count++);  // one table of names for all
  std::unique_ptr<llvm::MemoryBuffer> object;
  {
    llvm::LLVMContext context;
    const auto module = emit_module(context, name, program, options);
    const Target target(options);
    target.optimize(*module);
    object = target.object(*module);
  }
  return link(std::move(object), name);
}

std::string ir_text(const scalar::Program& program, const CompileOptions& options, bool optimized) {
  llvm::LLVMContext context;
  const auto module = emit_module(context, "kernel", program, options);
  if (optimized) Target(options).optimize(*module);
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  return text;
}

std::string assembly_text(const scalar::Program& program, const CompileOptions& options) {
  llvm::LLVMContext context;
  const auto module = emit_module(context, "kernel", program, options);
  const Target target(options);
  target.optimize(*module);
  return target.assembly(*module);
}

}  // namespace etude::codegen::backend
