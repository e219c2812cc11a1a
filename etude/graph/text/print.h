// SPDX-License-Identifier: Apache-2.0
// Graphs as text: for people, for tests of passes, and for parse_graph() (parse.h). Each graph has
// exactly one text, and that text parses to the same graph.
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
// Rules:
// * Inputs have a name, with a sigil for their role: none for arguments, * for keys, & for
//   Variables, ^ for captures. The second input with a name is x~2. All other values are numbered.
// * Names and texts with more than letters, digits and _ . / [0] are quoted; control bytes are \n,
//   \r, \t and \x1b.
// * Absent operands and outputs are `none`. An op shows the attributes that differ from its
//   defaults.
// * Numbers have enough digits to parse to the same bits, including inf, -0 and nan; a NaN with
//   other bits is nan(0x7fc00001). A constant of more than 16 elements shows their bytes in memory:
//   hex 0000003f....
// * A scalar program is in braces: program={tanh(x1)}. If several records have programs with the
//   same text, the second is {tanh(x1)}~2.
// * The version of an op follows its name if it is not 1: softclip@2(x). A text of an older version
//   of an op parses to a call of the present version (core/op/upgrade.h).
// * Graphs in attributes are printed after the graph. Each is printed once, before the graphs that
//   it refers to. * The line that made a node follows the node as a comment. A header of more than
//   100 columns has one input per line.
// * A type that is not on the host ends in its device: float32[2]@gpu:0.
#pragma once

#include <string>

#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Deviations from the exact text, for people. The text parses again only if no constant was elided.
struct TextOptions {
  bool elide_constants = false;  // show only the first elements of long constants: 0.5, 2, -1, ...
  bool types = false;            // "%5: float32[32,10] = matmul(x, w)"
  bool call_sites = true;
};

// Does not throw on any contents of a graph. threads: thread-safe. cost: linear in the text.
std::string to_text(const Graph& graph, const TextOptions& options = {});

}  // namespace etude
