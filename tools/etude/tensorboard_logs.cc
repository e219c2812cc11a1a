// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/tensorboard_logs.h"

#include <cstddef>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/nn/fit/event_file.h"

namespace etude::tools {
namespace {

nn::GraphNames names_of(const StoredGraph& graph) {
  nn::GraphNames out{.outputs = graph.outputs};
  for (const GraphInput& input : graph.inputs) {
    const bool is_key = input.source == GraphInput::Source::kKey;
    out.inputs.push_back(is_key ? "key" : input.path);
    out.is_state.push_back(input.source == GraphInput::Source::kState);
  }
  return out;
}

}  // namespace

void write_tensorboard(const Stored& stored, const std::string& logs) {
  ETUDE_REQUIRE(!stored.functions.empty(),
                "'{}' is {}, which has no functions. TensorBoard shows the graphs of functions",
                stored.path, words_of(stored.kind));
  for (const StoredFunction& function : stored.functions) {
    std::size_t number = 0;
    for (const StoredGraph& graph : function.graphs) {
      if (graph.is_special) continue;
      ++number;
      // A name in a file of graphs may have slashes.
      const std::string name = std::filesystem::path(function.name).filename().string();
      const std::string base = name.empty() || name == ".." || name == "." ? "graph" : name;
      const std::string folder = number == 1 ? base : fmt::format("{}_{}", base, number);
      nn::EventFile events((std::filesystem::path(logs) / folder).string(), CallSite{});
      events.graph(*graph.graph, names_of(graph), CallSite{});
      events.flush();
      fmt::print("{}\n", events.path());
    }
  }
}

}  // namespace etude::tools
