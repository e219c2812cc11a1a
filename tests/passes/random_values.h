// SPDX-License-Identifier: Apache-2.0
// Random values for graphs, with all that a rule may stumble over.
#pragma once

#include <cstdint>
#include <vector>

#include "etude/graph/graph.h"

namespace etude::tests {

// Any bits, and among them zeros of both signs, infinities, NaNs that are quiet or not, and numbers
// of all sizes. The same for the same seed.
Tensor random_value(const Type* type, uint64_t seed);
// One for each input.
std::vector<Tensor> random_inputs(const Graph& graph, uint64_t seed);

}  // namespace etude::tests
