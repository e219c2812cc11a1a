// SPDX-License-Identifier: Apache-2.0
// Graphs in binary form, for files and networks; the text for people is in print.h. A container
// holds one or more graphs under names, with everything in them, including the frames of inlined
// calls. It states the version of each op, so that later releases read it (core/op/upgrade.h).
// Files are not trusted: every error names its position.
//
// Layout, version 2. Numbers are little-endian; "number" is a varint: seven bits per byte, lowest
// first; the highest bit of a byte means that more bytes follow. A list follows its length.
//
//   offset  bytes
//    0      8     89 45 54 47 0d 0a 1a 0a: detects files with converted line ends
//    8      4     version: 2
//   12      4     CRC-32 (zlib's) of all bytes from 16 on
//   16      8     total number of bytes
//   24      8     offset of the elements of constants: a multiple of 64
//   32      4     content: 0 one graph, 1 one symbolic graph, 2 any other list of functions
//   36      4     0
//   40            texts, types, programs, ops, constants, graphs, functions: seven lists
//   elements      of each constant in the order of the list, each at a multiple of 64, so that a
//                 mapped file can be read in place
//
//   text          length and bytes. All names below are indices into the texts
//   type          length and bytes of its text, "float32[2,3]": files know no devices
//   program       its text; name of the op whose record has it + 1 (0: none), and the place there
//   op            name, version, attributes. Each op once. An attribute is a name, a kind (a byte),
//                 and 0 required, 1 absent unless given, or 2 and the default. So no later default
//                 alters the file, and values can be read without the record
//   constant      its type. Equal constants are stored once
//   graph         name; inputs; indices of constants; frames; nodes; outputs. A graph comes after
//                 the graphs that it refers to
//   input         name, type, role (a byte: 0 argument, 1 key, 2 Variable, 3 capture)
//   frame         function, line, index of the outer frame + 1 (0: none)
//   node          index of its op, line, index of its frame + 1, operands, number of results,
//                 attributes that differ from the defaults in this file: index, value
//   line          index of the file in the texts + 1, then its line number; 0 if unknown
//   value         operands and outputs are numbers of values + 1 (graph.h); 0: absent
//   attribute     a value of its kind: a byte; a zigzag number; 8 bytes; a text; a list; the index
//                 of a program or graph
//   function      name; indices of its graphs, two or more for a symbolic graph; paths of its
//                 outputs, one for each or none
//
// Version 1 is read as well. Its header ends at 32, and its one graph is the last. It has texts,
// types (with devices, which are dropped) and graphs. A graph has the types of its constants; a
// node the name of its op, no number of results, and attributes by name: 0 for absent, or 1 and the
// value. Programs are texts (print.h). All ops have version 1. A symbolic graph was a file of
// files: 8 bytes 89 45 54 46 0d 0a 1a 0a, the number of graphs and the number of bytes of each in 8
// bytes, and the graphs, each at a multiple of 64.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/graph/graph.h"
#include "etude/graph/symbolic_graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// A graph that was placed on a device is written as the original host graph, since types in files
// have no devices. threads: thread-safe. cost: linear.
std::string to_binary(const Graph& graph);

// Whether the bytes begin like a container of graphs; false for a single symbolic graph.
bool is_binary_graph(std::string_view bytes) noexcept;

// Reads the output of to_binary(). The graph satisfies all checks of verify().
//
// throws: kDataLoss for bytes that are not a graph, torn or wrong, naming the byte; kUnimplemented
// for a newer version of the format or of an op, for a version of an op without an upgrade, and for
// an unknown op, with similar names; kInvalidArgument for a call that its op refuses, and for a
// container of several graphs, with their names; kResourceExhausted for nodes, texts, defaults,
// constants and graphs that, counted at each use, exceed read_limits().
// cost: memory and time linear in the bytes, except for the type rules of ops. Graphs may nest 100
// levels deep by default (read_limits()).
GraphRef read_binary(std::string_view bytes);

// The same for a symbolic graph (symbolic_graph.h). Writes SymbolicGraph::graphs(), which determine
// it. Constants that are equal in these graphs are stored once. threads: thread-safe. cost: linear.
std::string to_binary(const SymbolicGraph& symbolic);
// Whether the bytes begin like a single symbolic graph.
bool is_symbolic_binary(std::string_view bytes) noexcept;
// throws: as read_binary(); kDataLoss, naming the difference, for graphs that do not form a
// symbolic graph.
SymbolicGraphRef read_symbolic_binary(std::string_view bytes);

// A graph or a symbolic graph under a name, for containers with several graphs.
struct NamedGraph {
  std::string name;                // "predict"
  GraphRef graph;                  // null for a symbolic graph
  SymbolicGraphRef symbolic = {};  // null for a graph
  // The path of each output in the result of the function: "loss", "state/mean". Empty: outputs
  // have no paths. The paths of inputs are their names.
  std::vector<std::string> outputs = {};
};
// If graphs share constants or graphs that they call, these are stored once.
//
// throws: kInvalidArgument, naming the graph, for an empty list, for a name that is empty or
// repeated, for an entry with no graph or with both kinds of graph, and for paths that are empty or
// repeated, or whose number is not the number of outputs.
// threads: thread-safe. cost: linear.
std::string to_binary(std::span<const NamedGraph> graphs);
// Reads all graphs of a container of any version, in the order in which they were written. A graph
// from a file with a single graph has the name of the graph.
// throws: as read_binary() and read_symbolic_binary().
std::vector<NamedGraph> read_binary_graphs(std::string_view bytes);

// Former names, which the next release drops.
using FamilyRef [[deprecated("FamilyRef is SymbolicGraphRef")]] = SymbolicGraphRef;
[[deprecated("read_binary_family() is read_symbolic_binary()")]] inline SymbolicGraphRef
read_binary_family(std::string_view bytes) {
  return read_symbolic_binary(bytes);
}

}  // namespace etude
