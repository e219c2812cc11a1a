// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/jit.h"

#include <atomic>
#include <cmath>
#include <string>

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h>

#include "etude/base/check.h"
#include "etude/codegen/ir_math.h"

namespace etude::codegen {
namespace {

namespace orc = llvm::orc;

void require_done(llvm::Error error, const char* what) {
  if (error) ETUDE_THROW(kInternal, "{} failed: {}", what, llvm::toString(std::move(error)));
}
template <class T>
T require_value(llvm::Expected<T> value, const char* what) {
  require_done(value.takeError(), what);
  return std::move(*value);
}

const backend::Host* host = nullptr;

// Why this thread's last link failed; nothing is written to the terminal.
thread_local std::string reported;

// The one session of the process. It links on the thread that asks, and lives on, as code does.
class Session {
 public:
  Session()
      : session_(make_control()), layer_(session_), imports_(session_.createBareJITDylib("etude")) {
    session_.setErrorReporter(
        [](llvm::Error error) { reported += llvm::toString(std::move(error)) + "; "; });
    define_imports();
  }

  // A library of its own for each object file: all of them call their function the same.
  orc::JITDylib& add(std::unique_ptr<llvm::MemoryBuffer> object) {
    static std::atomic<uint64_t> count{0};
    orc::JITDylib& library = session_.createBareJITDylib("kernel" + std::to_string(count++));
    library.addToLinkOrder(imports_);
    llvm::Error failed = layer_.add(library, std::move(object));
    if (failed) {
      remove(library);
      require_done(std::move(failed), "taking generated code");
    }
    return library;
  }

  void remove(orc::JITDylib& library) {
    if (auto error = session_.removeJITDylib(library)) llvm::consumeError(std::move(error));
  }

  void* find(orc::JITDylib& library) {
    reported.clear();
    llvm::Expected<orc::ExecutorSymbolDef> symbol = session_.lookup({&library}, kKernelName);
    if (!symbol) {
      const std::string why = llvm::toString(symbol.takeError());
      ETUDE_THROW(kResourceExhausted, "linking generated code failed: {}{}", reported, why);
    }
    return symbol->getAddress().toPtr<void*>();
  }

 private:
  static std::unique_ptr<orc::ExecutorProcessControl> make_control() {
    return require_value(orc::SelfExecutorProcessControl::Create(
                             nullptr, std::make_unique<orc::InPlaceTaskDispatcher>()),
                         "preparing to link generated code");
  }

  // All that generated code may call. A fused product has no instruction on machines without FMA.
  void define_imports() {
    orc::SymbolMap symbols;
    const auto define = [&](const std::string& name, auto* function) {
      symbols[session_.intern(name)] = {
          orc::ExecutorAddr::fromPtr(function),
          llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    };
    define("fmaf", static_cast<float (*)(float, float, float)>(&::fmaf));
    for (int k = 0; k <= static_cast<int>(host->best); ++k) {
      const auto isa = static_cast<internal::Isa>(k);
      const internal::LargeAngles& angles = host->large_angles[static_cast<std::size_t>(k)];
      define(sin_large_name(isa), angles.sin);
      define(tan_large_name(isa), angles.tan);
    }
    require_done(imports_.define(orc::absoluteSymbols(std::move(symbols))),
                 "preparing what generated code calls");
  }

  orc::ExecutionSession session_;
  orc::ObjectLinkingLayer layer_;
  orc::JITDylib& imports_;
};

Session& session() {
  static auto* const session = new Session;
  return *session;
}

class LinkedCode : public Code {
 public:
  explicit LinkedCode(std::unique_ptr<llvm::MemoryBuffer> object)
      : object_bytes_(object->getBufferSize()), library_(session().add(std::move(object))) {}
  ~LinkedCode() override { session().remove(library_); }
  void find() { entry_ = session().find(library_); }
  void* entry() const override { return entry_; }
  std::size_t object_bytes() const override { return object_bytes_; }

 private:
  std::size_t object_bytes_;
  orc::JITDylib& library_;
  void* entry_ = nullptr;
};

}  // namespace

void set_host(const backend::Host& given) { host = &given; }

std::shared_ptr<const Code> link(std::unique_ptr<llvm::MemoryBuffer> object) {
  auto code = std::make_shared<LinkedCode>(std::move(object));
  code->find();
  return code;
}

}  // namespace etude::codegen
