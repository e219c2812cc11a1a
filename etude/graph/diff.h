// SPDX-License-Identifier: Apache-2.0
// The difference between two graphs, in words. For tests of passes, for `etude graph diff`, and for
// finding out why a function was retraced.
#pragma once

#include <string>

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Describes the first difference in the computations of two graphs, and lists the lines of their
// texts that differ. If only names and lines differ, the description states that. "" for graphs
// with equal texts.
//
//   %5 = sum: attribute 'axis' is [0] in the first graph and [1] in the second
//     - %5 = sum(x, axis=[0])
//     + %5 = sum(x, axis=[1])
std::string diff(const Graph& a, const Graph& b);

}  // namespace etude
