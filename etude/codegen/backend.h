// SPDX-License-Identifier: Apache-2.0
// Object files and texts from the compiler (worker.h), for requests that are checked, and the code
// of object files in this process (load_object.h).
#pragma once

#include <memory>
#include <string>

#include "etude/codegen/compile.h"
#include "etude/codegen/request.h"

namespace etude::codegen::backend {

// Whether code is made; why_absent() says why not, and is empty otherwise. The compiler is looked
// for, and not started: what is wrong with it is known after that. thread-safe.
bool is_available();
std::string why_absent();

// What is asked for, as bytes.
//
// throws: as Worker::make.
std::string make(const Request& request);
// What object files hang on besides their requests: builds, LLVM's version, the processor. Starts
// nothing.
//
// throws: kUnimplemented without a compiler, saying why.
std::string maker();

// The file of the compiler, beside the library or the program that this function is part of, or in
// lib/ beside its bin/. "": there is none, and `why` says what was tried.
std::string find_compiler(std::string& why);

}  // namespace etude::codegen::backend
