// SPDX-License-Identifier: Apache-2.0
// The devices of values of loops and branches. A function is traced on cpu:0, but calls with a
// Variable of another device run there, and so may the results of a body. A loop carries a value on
// one device, and branches return a result on one device. Used by control_flow.cc.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/tensor.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// Moves each result on cpu:0 to the device of its element of `like`, if both have values.
void keep_places(std::vector<Tensor>& results, std::span<const Tensor> like, CallSite where);
// Moves carried values on cpu:0 to the devices of the first outputs of the body. Returns whether
// there were any: then the body has to be traced again.
bool follow_results(std::vector<Tensor>& carried, const Graph& body, CallSite where);
// Whether each value is on the device of the value of `like`.
bool are_at_places_of(std::span<const Tensor> values, std::span<const Tensor> like);
// For each result of the branches a tensor on its device. If a branch has it on another device than
// cpu:0, this is the device.
std::vector<Tensor> common_places(std::span<const Graph* const> branches, std::size_t results);

}  // namespace etude::internal
