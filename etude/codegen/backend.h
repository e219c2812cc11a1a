// SPDX-License-Identifier: Apache-2.0
// What Etude asks of LLVM. LLVM lies in a library of its own beside libetude.so, since a program
// that loads it begins 10 ms later: load_backend.cc opens it when something is first compiled.
// Programs that come here are checked. No header of LLVM is needed for this one.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "etude/base/error.h"
#include "etude/codegen/compile.h"

namespace etude::codegen::backend {

// What generated code may call, by instruction set up to the best one of this machine.
struct Host {
  internal::Isa best = internal::Isa::kPortable;
  std::array<internal::LargeAngles, 3> large_angles{};
};

// Where a text goes. Neither exceptions nor memory that the other one frees pass from one library
// to the other: each may be bound to its own operator new.
struct Text {
  std::string* to;
  void (*set)(std::string* to, const char* bytes, std::size_t size);
};
// Why something was not made.
struct Failure {
  Text text;
  ErrorCode code = ErrorCode::kInternal;
};

// What that library gives. thread-safe.
struct Table {
  // False if it failed.
  bool (*object)(const scalar::Program&, const CompileOptions&, Text out, Failure& why);
  std::shared_ptr<const Code> (*link)(const std::string& object, Failure& why);  // null: it failed
  bool (*ir_text)(const scalar::Program&, const CompileOptions&, bool optimized, Text out,
                  Failure& why);
  bool (*assembly_text)(const scalar::Program&, const CompileOptions&, Text out, Failure& why);
  const char* maker;  // LLVM's version and the processor: what object files hang on besides
};

// Its one function, by this name. Null for another `build`: the two were not made together.
inline constexpr char kEntryName[] = "etude_codegen_backend";
using Entry = const Table* (*)(const Host& host, const char* build);
// What both libraries have to agree on, as text: the version, the compiler, and the sizes of what
// passes between them.
std::string build_text();

// Whether it is there; why_absent() says what was tried, and is empty otherwise. thread-safe.
bool is_available();
const std::string& why_absent();

// throws (all that follow): kUnimplemented without the library, saying why; what it reports.
// An object file, as bytes, and its code, linked into this process.
std::string object(const scalar::Program& program, const CompileOptions& options);
std::shared_ptr<const Code> link(const std::string& object);
// What object files hang on besides program and options.
std::string maker();
std::string ir_text(const scalar::Program& program, const CompileOptions& options, bool optimized);
std::string assembly_text(const scalar::Program& program, const CompileOptions& options);

}  // namespace etude::codegen::backend
