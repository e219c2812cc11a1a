// SPDX-License-Identifier: Apache-2.0
// What differs between two graphs, in words. For tests of passes, for `etude graph diff`, and for
// finding out why a function was traced again.
#pragma once

#include <string>

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// The first difference of what the graphs compute, in words, and the lines of their texts that
// differ; where they compute the same but for names and lines, that. "" for graphs of one text.
//
//   %5 = sum: attribute 'axis' is [0] in the first graph and [1] in the second
//     - %5 = sum(x, axis=[0])
//     + %5 = sum(x, axis=[1])
std::string diff(const Graph& a, const Graph& b);

}  // namespace etude
