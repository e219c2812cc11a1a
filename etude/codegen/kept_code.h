// SPDX-License-Identifier: Apache-2.0
// What code of this process was linked from, for who writes it elsewhere (etude/aot).
#pragma once

#include <memory>
#include <string>

#include "etude/codegen/request.h"

namespace etude::codegen {

struct KeptCode {
  Request request;
  std::string object;  // what the compiler made of it
};

// From now on what is linked is kept, for as long as the process runs. thread-safe.
void keep_code() noexcept;
// Notes it, if it is kept. thread-safe.
void note_code(const void* entry, const Request& request, const std::string& object);
// What begins here; null: nothing that was kept. thread-safe.
std::shared_ptr<const KeptCode> kept_code(const void* entry);

}  // namespace etude::codegen
