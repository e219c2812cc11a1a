// SPDX-License-Identifier: Apache-2.0
// Describes the difference between two graphs in words. Used by tests of passes and by `etude graph
// diff`, and to find out why a function was retraced.
#pragma once

#include <string>

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Returns a description of the first difference between the computations of two graphs, and a list
// of the text lines that differ. If only names or source lines differ, the description states this.
// Returns "" for graphs with equal texts.
//
//   %5 = sum: attribute 'axis' is [0] in the first graph and [1] in the second
//     - %5 = sum(x, axis=[0])
//     + %5 = sum(x, axis=[1])
std::string diff(const Graph& a, const Graph& b);

}  // namespace etude
