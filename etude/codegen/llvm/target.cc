// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/llvm/target.h"

#include <array>
#include <mutex>
#include <vector>

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include "etude/base/check.h"
#include "etude/codegen/llvm/ir_math.h"
#include "etude/codegen/llvm/keep_denormals.h"

namespace etude::codegen {
namespace {

void initialize_once() {
  static const bool done = [] {
    ETUDE_CHECK(!llvm::InitializeNativeTarget() && !llvm::InitializeNativeTargetAsmPrinter(),
                "LLVM has no code generation for this machine");
    return true;
  }();
  static_cast<void>(done);
}

void initialize_arm64() {
#ifdef ETUDE_HAS_LLVM_ARM64
  static const bool done = [] {
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    return true;
  }();
  static_cast<void>(done);
#else
  ETUDE_THROW(kUnimplemented,
              "this compiler makes no code for 64-bit Arm: it was built with an LLVM without it");
#endif
}

// The processor by its LLVM name, and its additional features. The best instruction set is for this
// very machine, the lower ones for any machine that has them.
struct Processor {
  std::string name, features;
};

Processor processor_for(internal::Isa isa) {
#if defined(__x86_64__)
  if (isa == internal::Isa::kPortable) return {"x86-64", ""};
  if (isa == internal::Isa::kAvx2) return {"x86-64-v3", ""};
#else
  static_cast<void>(isa);
#endif
  llvm::SubtargetFeatures features;
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
    features.AddFeature(feature.first(), feature.second);
  }
  return {llvm::sys::getHostCPUName().str(), features.getString()};
}

}  // namespace

struct Target::Machine {
  CompileOptions options;
  MachineKind kind;
  std::unique_ptr<llvm::TargetMachine> target;
  llvm::PassBuilder builder;
  llvm::FunctionPassManager passes;

  Machine(const CompileOptions& o, MachineKind k)
      : options(o), kind(k), target(make_target(o, k)), builder(target.get()) {
    passes.addPass(llvm::EarlyCSEPass());
    if (o.tier == Tier::kFast) return;
    passes.addPass(llvm::InstCombinePass());
    passes.addPass(llvm::SimplifyCFGPass());
  }

  static std::unique_ptr<llvm::TargetMachine> make_target(const CompileOptions& options,
                                                          MachineKind kind) {
    const bool is_arm64 = kind == MachineKind::kArm64;
    is_arm64 ? initialize_arm64() : initialize_once();
    ETUDE_REQUIRE_CODE(kUnimplemented, !is_arm64 || options.isa == internal::Isa::kPortable,
                       "code for 64-bit Arm has 4 lanes. Set ETUDE_ISA=portable");
    const llvm::Triple triple(is_arm64 ? "aarch64-unknown-linux-gnu"
                                       : llvm::sys::getProcessTriple());
    std::string why;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, why);
    ETUDE_CHECK(target != nullptr, "LLVM knows no target '{}': {}", triple.str(), why);
    llvm::TargetOptions target_options;
    target_options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // a fused product is written as one
    const Processor processor = is_arm64 ? Processor{"generic", ""} : processor_for(options.isa);
    const auto level =
        options.tier == Tier::kFast ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default;
    return std::unique_ptr<llvm::TargetMachine>(
        target->createTargetMachine(triple, processor.name, processor.features, target_options,
                                    llvm::Reloc::PIC_, llvm::CodeModel::Small, level, true));
  }
};

namespace {

// Unused machines: making a machine takes about as long as compiling a small program. They are few,
// and never destroyed.
template <class Machine>
struct Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<Machine>> free;
};

template <class Machine>
Pool<Machine>& pool() {
  static auto* const pool = new Pool<Machine>;
  return *pool;
}

}  // namespace

std::string Target::machine_text() {
  const Processor host = processor_for(internal::Isa::kAvx512);
  return host.name + " " + host.features;
}

Target::Target(const CompileOptions& options) {
  const MachineKind kind = emitted_kind;
  auto& machines = pool<Machine>();
  {
    const std::lock_guard lock(machines.mutex);
    for (auto& machine : machines.free) {
      const bool fits = machine->options.tier == options.tier &&
                        machine->options.isa == options.isa && machine->kind == kind;
      if (!fits) continue;
      machine_ = std::move(machine);
      std::swap(machine, machines.free.back());
      machines.free.pop_back();
      return;
    }
  }
  machine_ = std::make_unique<Machine>(options, kind);
}

Target::~Target() {
  auto& machines = pool<Machine>();
  const std::lock_guard lock(machines.mutex);
  machines.free.push_back(std::move(machine_));
}

void Target::optimize(llvm::Module& module) const {
  module.setTargetTriple(machine_->target->getTargetTriple());
  module.setDataLayout(machine_->target->createDataLayout());
#if defined(ETUDE_ASSERTIONS)
  std::string wrong;
  llvm::raw_string_ostream stream(wrong);
  ETUDE_CHECK(!llvm::verifyModule(module, &stream), "generated code is not valid: {}", wrong);
#endif
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  machine_->builder.registerModuleAnalyses(modules);
  machine_->builder.registerCGSCCAnalyses(calls);
  machine_->builder.registerFunctionAnalyses(functions);
  machine_->builder.registerLoopAnalyses(loops);
  machine_->builder.crossRegisterProxies(loops, functions, calls, modules);
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) machine_->passes.run(function, functions);
  }
  keep_denormals(module);
}

std::unique_ptr<llvm::MemoryBuffer> Target::object(llvm::Module& module) const {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  llvm::MCContext* context = nullptr;
  ETUDE_CHECK(!machine_->target->addPassesToEmitMC(passes, context, stream),
              "LLVM emits no object files for this machine");
  passes.run(module);
  return std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(bytes), module.getName(), false);
}

std::string Target::assembly(llvm::Module& module) const {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  ETUDE_CHECK(!machine_->target->addPassesToEmitFile(passes, stream, nullptr,
                                                     llvm::CodeGenFileType::AssemblyFile),
              "LLVM writes no assembler for this machine");
  passes.run(module);
  return text.str().str();
}

}  // namespace etude::codegen
