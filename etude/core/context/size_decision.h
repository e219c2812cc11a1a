// SPDX-License-Identifier: Apache-2.0
// For library code that chooses an algorithm by a size. The algorithms may round differently, so a
// graph traced meanwhile is valid for these sizes only. Noted like a read by host code
// (size_reads.h).
#pragma once

#include <cstdint>

namespace etude::internal {

void note_decision(int64_t size) noexcept;

}  // namespace etude::internal
