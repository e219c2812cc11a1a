// SPDX-License-Identifier: Apache-2.0
// Graphs as bytes: the form for files and wires, beside the text for people (print.h). It holds all
// that a graph is: also the frames of calls that were inlined. Files are not trusted: whatever is
// wrong with one is an Error that says where.
//
// Layout, version 1. Numbers are little-endian; "number" is a varint: seven bits a byte, the lowest
// first, the highest bit of a byte says that more follow.
//
//   offset  bytes
//    0      8     89 45 54 47 0d 0a 1a 0a: a file whose line ends were converted is no graph
//    8      4     version: 1
//   12      4     CRC-32 (zlib's) of all bytes from 16 on
//   16      8     bytes of the whole
//   24      8     offset of the elements of constants: a multiple of 64
//   32            texts: how many, then length and bytes of each
//                 types: how many, then the text of each, "float32[2,3]"
//                 graphs: how many, then each; after those that it refers to, the main one last
//   elements      of each constant in the order of the graphs, each at a multiple of 64, so that a
//                 file that is mapped can be read in place
//
//   graph         name; inputs; types of constants; frames; nodes; outputs: each list with its
//                 length in front. Names, ops, dtypes and programs are places in the texts.
//   input         name, type, role (a byte: 0 argument, 1 key, 2 Variable, 3 capture)
//   frame         function, line, place of the outer frame + 1 (0: none)
//   node          op, line, place of its frame + 1, operands, attributes that are no defaults
//   line          place of the file among the texts + 1, then its line; or 0 where it is not known
//   value         operands and outputs are numbers of values + 1 (graph.h); 0: absent
//   attribute     name; 0 for absent, or 1 and a value of the kind that the record says: a byte; a
//                 number by zigzag; 8 bytes; a text; a list with its length; a program by its text
//                 in braces (print.h); the place of a graph
#pragma once

#include <string>
#include <string_view>

#include "etude/graph/family.h"
#include "etude/graph/graph.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// thread-safe. cost: linear.
std::string to_binary(const Graph& graph);

// Whether this begins as a graph in binary form does.
bool is_binary_graph(std::string_view bytes) noexcept;

// The graph that to_binary() wrote; all that verify() checks holds for it.
//
// throws: kDataLoss for bytes that are none, torn or wrong, naming the byte; kUnimplemented for a
//         newer version; kNotFound for an unknown op, with the nearest names; kInvalidArgument for
//         a call that its op refuses; kResourceExhausted for texts that, wherever they are used,
//         come to more than 256 times the bytes.
// cost:   memory and time linear in the bytes, but for what ops do to tell types. Graphs may refer
//         to others 100 levels deep.
GraphRef read_binary(std::string_view bytes);

// The same for a family, one graph for many sizes (family.h): the graphs that it was found from,
// which say all that it knows. Layout, in numbers of 8 bytes:
//
//   offset  bytes
//    0      8     89 45 54 46 0d 0a 1a 0a
//    8      8     how many graphs: 2 or more
//   16            bytes of each
//   graphs        each at a multiple of 64, as above
//
// thread-safe. cost: linear; constants stand in each of the two or three graphs.
std::string to_binary(const Family& family);
bool is_binary_family(std::string_view bytes) noexcept;
// throws: as read_binary(); kDataLoss for graphs that are no family, saying where they differ.
FamilyRef read_binary_family(std::string_view bytes);

}  // namespace etude
