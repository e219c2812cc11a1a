// SPDX-License-Identifier: Apache-2.0
// For library code that chooses between ways to compute the same by a size: the ways may round
// differently, so a graph that is traced meanwhile is good for these sizes alone. Told like a look
// of host code (size_reads.h).
#pragma once

#include <cstdint>

namespace etude::internal {

void note_decision(int64_t size) noexcept;

}  // namespace etude::internal
