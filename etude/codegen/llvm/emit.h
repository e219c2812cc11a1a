// SPDX-License-Identifier: Apache-2.0
// The function of a scalar program as a module of LLVM: a loop over whole vectors and a masked
// rest; and that of a region.
#pragma once

#include <memory>
#include <string>

#include <llvm/IR/Module.h>

#include "etude/codegen/compile.h"

namespace etude::codegen {

// The module's one visible function has the given name and the signature of the layout. The program
// and the options are checked.
std::unique_ptr<llvm::Module> emit_module(llvm::LLVMContext& context, const std::string& name,
                                          const scalar::Program& program,
                                          const CompileOptions& options);

// The function of a region, a RegionCode::Run. The region and the options are checked.
std::unique_ptr<llvm::Module> emit_region(llvm::LLVMContext& context, const std::string& name,
                                          const internal::Region& region,
                                          const CompileOptions& options);

}  // namespace etude::codegen
