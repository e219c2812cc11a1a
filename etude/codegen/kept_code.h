// SPDX-License-Identifier: Apache-2.0
// The sources of the code linked into this process, for writing the code elsewhere (etude/aot).
#pragma once

#include <memory>
#include <string>

#include "etude/codegen/request.h"

namespace etude::codegen {

struct KeptCode {
  Request request;
  std::string object;  // the object file that the compiler made of it
};

// Starts recording linked code. Recording lasts until the process ends. threads: thread-safe.
void keep_code() noexcept;
// Records code, if recording is on. threads: thread-safe.
void note_code(const void* entry, const Request& request, const std::string& object);
// The recorded code that begins at `entry`; null: none. threads: thread-safe.
std::shared_ptr<const KeptCode> kept_code(const void* entry);

}  // namespace etude::codegen
