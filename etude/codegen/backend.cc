// SPDX-License-Identifier: Apache-2.0
// The library that holds LLVM: what it shows is the function at the end.
#include "etude/codegen/backend.h"

#include <new>
#include <string_view>

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

std::string ir_of(const scalar::Program& program, const CompileOptions& options, bool optimized) {
  llvm::LLVMContext context;
  const auto module = emit_module(context, kKernelName, program, options);
  if (optimized) Target(options).optimize(*module);
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  return text;
}

std::string assembly_of(const scalar::Program& program, const CompileOptions& options) {
  llvm::LLVMContext context;
  const auto module = emit_module(context, kKernelName, program, options);
  const Target target(options);
  target.optimize(*module);
  return target.assembly(*module);
}

// Runs f; false, with a reason, if it throws.
template <class F>
bool told(backend::Failure& why, F&& f) {
  const auto fail = [&why](std::string_view text, ErrorCode code) {
    why.text.set(why.text.to, text.data(), text.size());
    why.code = code;
    return false;
  };
  try {
    f();
    return true;
  } catch (const Error& error) {
    return fail(error.what(), error.code());
  } catch (const std::bad_alloc&) {
    return fail("the host has no memory left for making code", ErrorCode::kResourceExhausted);
  }
}

void put(backend::Text out, const std::string& text) { out.set(out.to, text.data(), text.size()); }

using Program = const scalar::Program&;
using Options = const CompileOptions&;

backend::Table make_table() {
  static const auto* const maker =
      new std::string(fmt::format("LLVM {} {}", LLVM_VERSION_STRING, Target::machine_text()));
  return {
      [](Program program, Options options, backend::Text out, backend::Failure& why) {
        return told(why, [&] { put(out, object(program, options)); });
      },
      [](const std::string& bytes, backend::Failure& why) {
        std::shared_ptr<const Code> code;
        told(why, [&] { code = linked(bytes); });
        return code;
      },
      [](Program program, Options options, bool optimized, backend::Text out,
         backend::Failure& why) {
        return told(why, [&] { put(out, ir_of(program, options, optimized)); });
      },
      [](Program program, Options options, backend::Text out, backend::Failure& why) {
        return told(why, [&] { put(out, assembly_of(program, options)); });
      },
      maker->c_str(),
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

#ifndef ETUDE_PORTABLE_PROGRAMS
// See kBinding in load_backend.cc: statics of LLVM are never destroyed.
extern "C" [[gnu::visibility("default")]] int __cxa_atexit(void (*)(void*), void*, void*) {
  return 0;
}
#endif
