// SPDX-License-Identifier: Apache-2.0
// The settings that a training run depends on besides its program: seeds, versions, flags. Written
// next to checkpoints (checkpoints.h).
#pragma once

#include <cstdint>
#include <string>

#include "etude/io/safetensors.h"

namespace etude::io::internal {

// Returns one JSON object with a line per entry: the versions of Etude and the compiler,
// assertions, instruction set, threads, environment variables of Etude, the generator of this
// thread, the number of updates so far, and `settings`. Two runs of one program with equal records
// compute the same bits.
std::string run_record(int64_t updates, const Metadata& settings);

}  // namespace etude::io::internal
