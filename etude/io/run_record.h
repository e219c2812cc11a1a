// SPDX-License-Identifier: Apache-2.0
// What a training run hangs on beside its program: seeds, versions, flags. Written beside
// checkpoints (checkpoints.h).
#pragma once

#include <cstdint>
#include <string>

#include "etude/io/safetensors.h"

namespace etude::io::internal {

// One JSON object, with lines of its own for each entry: the versions of Etude and the compiler,
// assertions, instruction set, threads, environment variables of Etude, the generator of this
// thread, the updates that there have been, and `settings`. Two runs of one program with equal
// records give the same bits.
std::string run_record(std::int64_t updates, const Metadata& settings);

}  // namespace etude::io::internal
