// SPDX-License-Identifier: Apache-2.0
// Graphs in binary form, for files and networks. For a text form see text/print.h. A container
// holds one or more complete graphs under names, including the frames of inlined calls. It states
// the version of each op, so that later releases can read the container (core/op/upgrade.h).
// Readers do not trust files. An error after the header names the position of the byte.
//
// Layout, version 2. Numbers are little-endian. A "number" below is a varint: seven bits per byte,
// lowest bits first; the highest bit of a byte means that more bytes follow. A list starts with its
// length.
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
//   elements      the elements of each constant in the order of the list, each at a multiple of 64,
//                 so that a mapped file can be read in place
//
//   text          length and bytes. All names below are indices into the texts
//   type          length and bytes of its text, "float32[2,3]". Types have no devices
//   program       its text. Then, if the program is part of the record of an op: the index of the
//                 op's name + 1, and the place in the record. Otherwise 0
//   op            name, version, attributes. Each op is listed once. An attribute is a name, a kind
//                 (a byte), and 0 (required), 1 (absent by default), or 2 and the default. So later
//                 changes of a default do not affect the file, and the record is not needed to read
//                 values
//   constant      its type. Equal constants are stored once
//   graph         name; inputs; indices of constants; frames; nodes; outputs. A graph comes after
//                 the graphs that it refers to
//   input         name, type, role (a byte: 0 argument, 1 key, 2 Variable, 3 capture)
//   frame         function, line, index of the outer frame + 1 (0: none)
//   node          index of its op, line, index of its frame + 1 (0: none), operands, number of
//                 results, attributes that differ from the defaults in this file: index, value
//   line          index of the file name in the texts + 1, then the line number; 0 if unknown
//   value         operands and outputs: the number of the value (graph.h) + 1; 0 if absent
//   attribute     a value of its kind: a byte; a zigzag number; 8 bytes; a text; a list; the index
//                 of a program or graph
//   function      name; indices of its graphs, two or more for a symbolic graph; paths of its
//                 outputs: one path for each output, or an empty list
//
// Readers also accept version 1. The header ends at offset 32. Texts, types and graphs follow, and
// the last graph is the result. Devices in types are dropped. A graph has the types of its
// constants. A node has the name of its op and no number of results. An attribute is its name, then
// 0 for absent, or 1 and the value. Programs are texts (text/print.h). All ops have version 1. A
// symbolic graph is a file of files: 8 bytes 89 45 54 46 0d 0a 1a 0a; the number of graphs and the
// size of each graph, in 8 bytes each; and the graphs, each at a multiple of 64.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/graph/graph.h"
#include "etude/graph/symbolic_graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Writes a graph. A graph that was placed on a device is written as the original host graph, since
// types in files have no devices.
// throws: kUnimplemented for a graph that calls a host function.
// threads: thread-safe. cost: linear.
std::string to_binary(const Graph& graph);

// Whether the bytes begin like a container of graphs. False for a single symbolic graph.
bool is_binary_graph(std::string_view bytes) noexcept;

// Reads the output of to_binary(). The result satisfies all checks of verify().
//
// throws: kDataLoss for bytes that are not a graph, or are torn or damaged;
//         kUnimplemented for a newer version of the format or of an op, for a version of an op
//         without an upgrade, and for an unknown op (the message lists similar names);
//         kNotFound for an unknown scalar program;
//         kInvalidArgument for a call that its op refuses, for graphs nested deeper than
//         read_limits(), for a symbolic graph, and for several graphs (the message lists their
//         names);
//         kResourceExhausted if the sizes of nodes, texts, defaults, constants and graphs, counted
//         at each use, exceed read_limits().
// cost: memory and time are linear in the bytes, except for the type rules of ops. By default,
// graphs may nest 100 levels deep (read_limits()).
GraphRef read_binary(std::string_view bytes);

// Writes a symbolic graph (symbolic_graph.h) as its SymbolicGraph::graphs(), which determine the
// symbolic graph. Equal constants are stored once.
// throws: as to_binary() of a graph.
// threads: thread-safe. cost: linear.
std::string to_binary(const SymbolicGraph& symbolic);
// Whether the bytes begin like a single symbolic graph.
bool is_symbolic_binary(std::string_view bytes) noexcept;
// Reads one symbolic graph.
// throws: as read_binary(), but kInvalidArgument for a single plain graph; kDataLoss, naming the
// difference, for graphs that do not form a symbolic graph.
SymbolicGraphRef read_symbolic_binary(std::string_view bytes);

// A graph or a symbolic graph under a name, for containers with several graphs.
struct NamedGraph {
  std::string name;                // "predict"
  GraphRef graph;                  // null for a symbolic graph
  SymbolicGraphRef symbolic = {};  // null for a graph
  // The path of each output in the result of the function: "loss", "state/mean". An empty list
  // means that outputs have no paths. The path of an input is its name.
  std::vector<std::string> outputs = {};
};
// Writes a container of several graphs. Shared constants and shared inner graphs are stored once.
//
// throws: kInvalidArgument for an empty list; kInvalidArgument, naming the graph, for a name that
// is empty or repeated, for an entry with no graph or with both kinds of graph, for paths that are
// empty or repeated, and for a number of paths that is not the number of outputs.
// threads: thread-safe. cost: linear.
std::string to_binary(std::span<const NamedGraph> graphs);
// Reads all graphs of a container of any version, in the order in which they were written. The
// entry of a version 1 file has the name of the graph, or "graph" for an unnamed graph.
// throws: as read_binary() and read_symbolic_binary(), but accepts any number and kind of graphs.
std::vector<NamedGraph> read_binary_graphs(std::string_view bytes);

// Former names, which the next release drops.
using FamilyRef [[deprecated("FamilyRef is SymbolicGraphRef")]] = SymbolicGraphRef;
[[deprecated("read_binary_family() is read_symbolic_binary()")]] inline SymbolicGraphRef
read_binary_family(std::string_view bytes) {
  return read_symbolic_binary(bytes);
}

}  // namespace etude
