// SPDX-License-Identifier: Apache-2.0
// The library that holds LLVM: what it shows is the function at the end.
#include "etude/codegen/backend.h"

#include <new>

#include <fmt/format.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/Support/raw_ostream.h>

#include "etude/codegen/emit.h"
#include "etude/codegen/jit.h"
#include "etude/codegen/target.h"

namespace etude::codegen {
namespace {

std::string object(const scalar::Program& program, const CompileOptions& options) {
  llvm::LLVMContext context;
  const auto module = emit_module(context, kKernelName, program, options);
  const Target target(options);
  target.optimize(*module);
  return target.object(*module)->getBuffer().str();
}

std::shared_ptr<const Code> linked(const std::string& object) {
  return link(llvm::MemoryBuffer::getMemBufferCopy(object, kKernelName));
}

std::string ir_text(const scalar::Program& program, const CompileOptions& options, bool optimized) {
  llvm::LLVMContext context;
  const auto module = emit_module(context, kKernelName, program, options);
  if (optimized) Target(options).optimize(*module);
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  return text;
}

std::string assembly_text(const scalar::Program& program, const CompileOptions& options) {
  llvm::LLVMContext context;
  const auto module = emit_module(context, kKernelName, program, options);
  const Target target(options);
  target.optimize(*module);
  return target.assembly(*module);
}

// f(args...), with what it throws as a text.
template <auto f, class T, class... Args>
backend::Outcome<T> told(Args... args) {
  backend::Outcome<T> out;
  try {
    out.value = f(args...);
  } catch (const Error& error) {
    out.error = error.what();
    out.code = error.code();
  } catch (const std::bad_alloc&) {
    out.error = "the host has no memory left for making code";
    out.code = ErrorCode::kResourceExhausted;
  }
  return out;
}

using Program = const scalar::Program&;
using Options = const CompileOptions&;

backend::Table make_table() {
  return {
      told<object, std::string, Program, Options>,
      told<linked, std::shared_ptr<const Code>, const std::string&>,
      told<ir_text, std::string, Program, Options, bool>,
      told<assembly_text, std::string, Program, Options>,
      fmt::format("LLVM {} {}", LLVM_VERSION_STRING, Target::machine_text()),
  };
}

}  // namespace
}  // namespace etude::codegen

extern "C" [[gnu::visibility("default")]] const etude::codegen::backend::Table*
etude_codegen_backend(const etude::codegen::backend::Host& host, const char* build) {
  if (etude::codegen::backend::build_text() != build) return nullptr;
  etude::codegen::set_host(host);
  static const auto* const table = new etude::codegen::backend::Table(etude::codegen::make_table());
  return table;
}
