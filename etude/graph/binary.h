// SPDX-License-Identifier: Apache-2.0
// Graphs in binary form, for files and networks; the text for people is in print.h. The binary form
// holds everything in a graph, including the frames of inlined calls. Files are not trusted: every
// error names its position.
//
// Layout, version 1. Numbers are little-endian; "number" is a varint: seven bits per byte, lowest
// first; the highest bit of a byte means that more bytes follow.
//
//   offset  bytes
//    0      8     89 45 54 47 0d 0a 1a 0a: detects files with converted line ends
//    8      4     version: 1
//   12      4     CRC-32 (zlib's) of all bytes from 16 on
//   16      8     total number of bytes
//   24      8     offset of the elements of constants: a multiple of 64
//   32            texts: their number, then length and bytes of each
//                 types: their number, then the text of each, "float32[2,3]"
//                 graphs: their number, then each graph; a graph comes after the graphs that it
//                 refers to, the main graph is last
//   elements      of each constant in the order of the graphs, each at a multiple of 64, so that a
//                 mapped file can be read in place
//
//   graph         name; inputs; types of constants; frames; nodes; outputs: each list after
//                 its length. Names, ops, dtypes and programs are indices into the texts.
//   input         name, type, role (a byte: 0 argument, 1 key, 2 Variable, 3 capture)
//   frame         function, line, index of the outer frame + 1 (0: none)
//   node          op, line, index of its frame + 1, operands, attributes that differ from defaults
//   line          index of the file in the texts + 1, then its line number; 0 if unknown
//   value         operands and outputs are numbers of values + 1 (graph.h); 0: absent
//   attribute     name; 0 for absent, or 1 and a value of the kind in the record: a byte; a
//                 zigzag number; 8 bytes; a text; a list with its length; a program by its text in
//                 braces (print.h); the index of a graph
#pragma once

#include <string>
#include <string_view>

#include "etude/graph/graph.h"
#include "etude/graph/symbolic_graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// threads: thread-safe. cost: linear.
std::string to_binary(const Graph& graph);

// Whether the bytes begin like a graph in binary form.
bool is_binary_graph(std::string_view bytes) noexcept;

// The graph that to_binary() wrote. The result satisfies all checks of verify().
//
// throws: kDataLoss for bytes that are not a graph, torn or wrong, naming the byte; kUnimplemented
// for a newer version; kNotFound for an unknown op, with similar names; kInvalidArgument for a call
// that its op refuses; kResourceExhausted for texts that, counted at each use, exceed 256 times the
// number of bytes.
// cost: memory and time linear in the bytes, except for the type rules of ops. Graphs may nest 100
// levels deep.
GraphRef read_binary(std::string_view bytes);

// The same for a symbolic graph, one graph for many sizes (symbolic_graph.h): the graphs that it
// was found from, which determine it. Layout, in numbers of 8 bytes:
//
//   offset  bytes
//    0      8     89 45 54 46 0d 0a 1a 0a
//    8      8     number of graphs: 2 or more
//   16            number of bytes of each
//   graphs        each at a multiple of 64, as above
//
// threads: thread-safe. cost: linear; each of the two or three graphs holds its constants.
std::string to_binary(const SymbolicGraph& symbolic);
bool is_symbolic_binary(std::string_view bytes) noexcept;
// throws: as read_binary(); kDataLoss for graphs that are not a symbolic graph, naming the
// difference.
SymbolicGraphRef read_symbolic_binary(std::string_view bytes);

// Former names, which the next release drops.
using FamilyRef [[deprecated("FamilyRef is SymbolicGraphRef")]] = SymbolicGraphRef;
[[deprecated("read_binary_family() is read_symbolic_binary()")]] inline SymbolicGraphRef
read_binary_family(std::string_view bytes) {
  return read_symbolic_binary(bytes);
}

}  // namespace etude
