// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets of the two formats of graphs: an initial graph, edits of a file, and
// the conditions for a reader, its writer, and graphs on devices, which are placed and run there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "etude/base/error.h"
#include "etude/core/call/values.h"
#include "etude/core/device.h"
#include "etude/core/op/op.h"
#include "etude/core/tensor.h"
#include "etude/graph/graph.h"
#include "etude/graph/text/print.h"
#include "etude/graph/verify.h"
#include "etude/ops.h"
#include "etude/passes/place.h"
#include "etude/plan/plan.h"
#include "tests/devices/sim/sim_device.h"
#include "tests/same_numbers.h"

namespace etude::fuzz {

inline constexpr std::string_view kNamesAndConstants =
    "graph f(x: float32[2,3], layers[0]/w: float32[3,4], *k: uint64[2], ^c: float32[]) -> "
    "(float32[2,4])\n"
    "  %4 = constant float32[2,2] [[0.5, -inf], [nan(0x7fc00001), -0]]\n"
    "  %5 = matmul(x, layers[0]/w)  # train.cc:41\n"
    "  %6 = multiply(%5, ^c)        # \"a b\":42\n"
    "  return %6\n";

[[noreturn]] inline void refuse(std::string_view why, const std::string& text) {
  std::fprintf(stderr, "%.*s\n%s\n", static_cast<int>(why.size()), why.data(), text.c_str());
  std::abort();
}

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

// Whether a graph of a file can be run: it ends, takes little memory, and computes values alone. A
// loop may be endless, and a value of a file may have any size.
inline bool is_harmless(const Graph& graph) {
  constexpr int64_t kMostBytes = 4096, kMostNodes = 100;
  if (graph.size() > static_cast<std::size_t>(kMostNodes)) return false;
  for (std::size_t v = 0; v < graph.value_count(); ++v) {
    const Type* type = graph.type(static_cast<GraphValue>(v));
    if (type == nullptr || type->count() < 0 || type->bytes() > kMostBytes) return false;
  }
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    if (internal::has_effects(node.op, node.attrs) || node.op.moves_devices()) return false;
    for (const AttrValue& value : node.attrs.values()) {
      if (std::holds_alternative<internal::RefPtr<const AttrObject>>(value)) return false;
      if (std::holds_alternative<std::vector<internal::RefPtr<const AttrObject>>>(value))
        return false;
    }
  }
  return true;
}

// The outputs of a graph on a device, for inputs of ones. throws: the errors of the calls.
inline std::vector<Tensor> results_on(const Graph& graph, Device device) {
  const GraphRef placed = internal::placed_graph(graph, device);
  std::vector<Tensor> inputs;
  for (const Graph::Input& input : placed->inputs()) {
    inputs.push_back(
        ones(input.type->shape(), {.dtype = input.type->dtype()}).to(input.type->device()));
  }
  const OperandList list{std::span<const Tensor>(inputs)};
  std::vector<Tensor> out;
  for (const Tensor& y : internal::Plan::of(*placed)->run(list.view())) {
    out.push_back(y.has_value() ? y.to(Device()) : y);
  }
  return out;
}

// Aborts unless the graph can be placed on cpu:1 and on sim:0, which runs calls after they have
// returned, or is refused by an Error that is no fault of the library. A graph that runs at home
// must run there, and its outputs must have the same bits.
inline void check_devices(const Graph& graph) {
  static const Device devices[] = {add_cpu_device(), sim::device()};
  bool runs = is_harmless(graph);
  std::vector<Tensor> home;
  try {
    if (runs) home = results_on(graph, Device());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) refuse(error.what(), to_text(graph));
    runs = false;
  }
  for (const Device device : devices) {
    try {
      verify(*internal::placed_graph(graph, device));
      if (!runs) continue;
      const std::vector<Tensor> there = results_on(graph, device);
      for (std::size_t i = 0; i < home.size(); ++i) {
        if (!tests::same_numbers(home[i], there.at(i))) {
          refuse("other bits on " + device.to_string(), to_text(graph));
        }
      }
    } catch (const Error& error) {
      const bool is_fault =
          runs ? error.code() != ErrorCode::kUnimplemented : error.code() == ErrorCode::kInternal;
      if (is_fault) refuse(device.to_string() + ": " + error.what(), to_text(graph));
    }
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
    if (error.code() == ErrorCode::kInternal) refuse(error.what(), file);
    return;
  }
  verify(*graph);
  const std::string written = write(*graph);
  const GraphRef again = read(written);
  if (!again->same(*graph)) refuse("another graph comes back", file + "---\n" + written);
  if (write(*again) != written) refuse("written otherwise: " + write(*again), written);
  check_devices(*graph);
}

}  // namespace etude::fuzz
