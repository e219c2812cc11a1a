// SPDX-License-Identifier: Apache-2.0
// Makes LLVM modules: the function of a scalar program, which is a loop over whole vectors and a
// masked remainder, and the function of a cluster.
#pragma once

#include <memory>
#include <string>

#include <llvm/IR/Module.h>

#include "etude/codegen/compile.h"

namespace etude::codegen {

// The one visible function of the module has the given name and the signature of the layout.
// Program and options must be checked.
std::unique_ptr<llvm::Module> emit_module(llvm::LLVMContext& context, const std::string& name,
                                          const scalar::Program& program,
                                          const CompileOptions& options);

// The function of a cluster, a ClusterCode::Run. Cluster and options must be checked.
std::unique_ptr<llvm::Module> emit_cluster(llvm::LLVMContext& context, const std::string& name,
                                           const internal::Cluster& cluster,
                                           const CompileOptions& options);

}  // namespace etude::codegen
