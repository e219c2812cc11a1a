// SPDX-License-Identifier: Apache-2.0
// For library code that chooses an algorithm by a size. The algorithms may round differently, so a
// graph that is being traced is valid for these sizes only. The trace notes the decision like a
// read of the size by host code (size_reads.h).
#pragma once

#include <cstdint>

namespace etude::internal {

void note_decision(int64_t size) noexcept;

}  // namespace etude::internal
