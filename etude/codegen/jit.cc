// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/jit.h"

#include <cmath>

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

// Why this thread's last link failed; nothing is written to the terminal.
thread_local std::string reported;

// The one session of the process. It links on the thread that asks, and lives on, as code does.
class Session {
 public:
  Session()
      : session_(make_control()), layer_(session_), library_(session_.createBareJITDylib("etude")) {
    session_.setErrorReporter(
        [](llvm::Error error) { reported += llvm::toString(std::move(error)) + "; "; });
    define_imports();
  }

  orc::ResourceTrackerSP add(std::unique_ptr<llvm::MemoryBuffer> object) {
    orc::ResourceTrackerSP tracker = library_.createResourceTracker();
    require_done(layer_.add(tracker, std::move(object)), "taking generated code");
    return tracker;
  }

  void* find(const std::string& name) {
    reported.clear();
    llvm::Expected<orc::ExecutorSymbolDef> symbol = session_.lookup({&library_}, name);
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
    for (int k = 0; k <= static_cast<int>(internal::best_isa()); ++k) {
      const auto isa = static_cast<internal::Isa>(k);
      define(sin_large_name(isa), internal::large_angles(isa).sin);
      define(tan_large_name(isa), internal::large_angles(isa).tan);
    }
    require_done(library_.define(orc::absoluteSymbols(std::move(symbols))),
                 "preparing what generated code calls");
  }

  orc::ExecutionSession session_;
  orc::ObjectLinkingLayer layer_;
  orc::JITDylib& library_;
};

Session& session() {
  static auto* const session = new Session;
  return *session;
}

class LinkedCode : public Code {
 public:
  LinkedCode(orc::ResourceTrackerSP tracker, std::size_t object_bytes)
      : tracker_(std::move(tracker)), object_bytes_(object_bytes) {}
  ~LinkedCode() override {
    if (auto error = tracker_->remove()) llvm::consumeError(std::move(error));
  }
  void find(const std::string& name) { entry_ = session().find(name); }
  void* entry() const override { return entry_; }
  std::size_t object_bytes() const override { return object_bytes_; }

 private:
  orc::ResourceTrackerSP tracker_;
  std::size_t object_bytes_;
  void* entry_ = nullptr;
};

}  // namespace

std::shared_ptr<const Code> link(std::unique_ptr<llvm::MemoryBuffer> object,
                                 const std::string& name) {
  const std::size_t bytes = object->getBufferSize();
  auto code = std::make_shared<LinkedCode>(session().add(std::move(object)), bytes);
  code->find(name);
  return code;
}

}  // namespace etude::codegen
