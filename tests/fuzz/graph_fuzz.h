// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets of the two formats of graphs: an initial graph, edits of a file, and
// the conditions for a reader, its writer, and the placement of graphs on devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "etude/base/error.h"
#include "etude/core/device.h"
#include "etude/graph/graph.h"
#include "etude/graph/verify.h"
#include "etude/passes/place.h"

namespace etude::fuzz {

inline constexpr std::string_view kNamesAndConstants =
    "graph f(x: float32[2,3], layers[0]/w: float32[3,4], *k: uint64[2], ^c: float32[]) -> "
    "(float32[2,4])\n"
    "  %4 = constant float32[2,2] [[0.5, -inf], [nan(0x7fc00001), -0]]\n"
    "  %5 = matmul(x, layers[0]/w)  # train.cc:41\n"
    "  %6 = multiply(%5, ^c)        # \"a b\":42\n"
    "  return %6\n";

// The file with edits. Each has four bytes: the kind, the position (two bytes) and the new byte.
inline std::string edited(std::string file, const uint8_t* data, std::size_t size) {
  for (; size >= 4 && !file.empty(); data += 4, size -= 4) {
    const std::size_t at = (data[1] * 256u + data[2]) % file.size();
    switch (data[0] % 5) {
      case 0:
        file[at] = static_cast<char>(data[3]);
        break;
      case 1:
        file.insert(at, 1, static_cast<char>(data[3]));
        break;
      case 2:
        file.erase(at, data[3] % 16u + 1);
        break;
      case 3:
        file.insert(at, file.substr(at, data[3] % 64u + 1));
        break;
      default:
        file.insert(
            at, std::to_string(data[3] * data[3] * data[3] * 99L * (data[3] % 2 * 99999999L + 1)));
    }
  }
  return file;
}

// Aborts unless the graph can be placed on another device, or is refused by an Error that is no
// fault of the library.
inline void check_placement(const Graph& graph) {
  static const Device device = add_cpu_device();
  try {
    verify(*internal::placed_graph(graph, device));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) std::abort();
  }
}

// Aborts unless `file` is a graph that is written and read back as the same, or an Error that is no
// fault of the library.
template <class Read, class Write>
void check_reader(const std::string& file, const Read& read, const Write& write) {
  GraphRef graph;
  try {
    graph = read(file);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) std::abort();
    return;
  }
  verify(*graph);
  const std::string written = write(*graph);
  const GraphRef again = read(written);
  if (!again->same(*graph) || write(*again) != written) std::abort();
  check_placement(*graph);
}

}  // namespace etude::fuzz

extern "C" [[gnu::used]] inline int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  std::puts(
      "graphs are placed on cpu:1 but not run: a graph of a file may loop without end, and may "
      "need "
      "any amount of memory");
  return 0;
}
