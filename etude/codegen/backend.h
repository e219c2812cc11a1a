// SPDX-License-Identifier: Apache-2.0
// Object files and texts from the compiler (worker.h), for checked requests, and the code of object
// files in this process (load_object.h).
#pragma once

#include <memory>
#include <string>

#include "etude/codegen/compile.h"
#include "etude/codegen/request.h"

namespace etude::codegen::backend {

// Whether code can be made; if not, why_absent() has the reason, else it is empty. Looks for the
// compiler without starting it; its own faults are found later. thread-safe.
bool is_available();
std::string why_absent();

// Returns the requested product, as bytes.
//
// throws: as Worker::make.
std::string make(const Request& request);
// The versions that object files depend on besides their requests: builds, LLVM, the processor.
// Starts nothing.
//
// throws: kUnimplemented, with the reason, without a compiler.
std::string maker();

// The file of the compiler, next to the library or the program that contains this function, or in
// lib/ next to its bin/. "": none; `why` then lists the searched places.
std::string find_compiler(std::string& why);

}  // namespace etude::codegen::backend
