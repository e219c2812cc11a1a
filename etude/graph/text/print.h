// SPDX-License-Identifier: Apache-2.0
// Graphs as text: what people read, what tests of passes compare, and what parse_graph() (parse.h)
// reads back. One graph has one text, and a text that was printed parses to the same graph, which
// prints as the same text.
//
//   graph step(w: float32[784,10], x: float32[32,784], *key: uint64[2], ^scale: float32[]) ->
//   (float32[32,10])
//     %4 = constant float32[2] [0.5, -inf]
//     %5 = matmul(x, w)                       # train.cc:41
//     %6, %7 = split(%5, parts_or_sizes=[2])  # train.cc:42
//     %8 = call(%6, none, graph=@body)        # train.cc:43
//     return %8
//
//   graph body(...) -> (...)
//     ...
//
// * Inputs have a name, and a sigil that tells their role: none for arguments, * for keys, & for
//   Variables, ^ for captures. The second input of one name is x~2. All other values are numbered.
// * Names and texts that are more than letters, digits and _ . / [0] stand in quotes, where control
//   bytes are \n, \r, \t and \x1b.
// * Absent operands and outputs are `none`. An op shows the attributes that differ from its
// defaults.
// * Numbers have the digits that bring back the same bits, and so have inf, -0 and nan; a NaN with
//   bits of its own is nan(0x7fc00001). A constant of more than 16 elements shows their bytes in
//   memory: hex 0000003f....
// * A scalar program stands in braces: program={tanh(x1)}. Of several records that have programs of
//   one text, the second has {tanh(x1)}~2.
// * Graphs that are attributes follow the graph, each once, and before those that it refers to.
// * The line that made a node stands behind it. A header beyond 100 columns has a line per input.
// * A type that is not on the host ends in its device: float32[2]@cuda:0.
#pragma once

#include <string>

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Beside the exact text, for people: what parses again only if no constant was elided.
struct TextOptions {
  bool elide_constants = false;  // of long ones show the first elements: 0.5, 2, -1, ...
  bool types = false;            // "%5: float32[32,10] = matmul(x, w)"
  bool call_sites = true;
};

// Never throws for what a graph holds. thread-safe. cost: linear in the text.
std::string to_text(const Graph& graph, const TextOptions& options = {});

}  // namespace etude
