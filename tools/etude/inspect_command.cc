// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/inspect_command.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/context/ambient.h"
#include "etude/files/atomic_file.h"
#include "etude/graph/text/names.h"
#include "etude/graph/text/print.h"
#include "etude/nn/fit/event_file.h"
#include "etude/ops.h"
#include "etude/saved/saved.h"
#include "etude/saved/source.h"
#include "tools/etude/graph_command.h"
#include "tools/etude/name_text.h"
#include "tools/etude/node_times.h"
#include "tools/etude/pages/html_text.h"
#include "tools/etude/pages/inspect_html.h"
#include "tools/etude/saved_command.h"
#include "tools/etude/stored.h"

namespace etude::tools {
namespace {

struct InspectOptions {
  std::string path, function, html, tensorboard;
  NamedInputs inputs;
  bool training = false;
};

std::size_t chosen(const Stored& stored, const std::string& name) {
  std::vector<std::string> names;
  for (const StoredFunction& each : stored.functions) names.push_back(each.name);
  ETUDE_REQUIRE(!names.empty(),
                "'{}' is {}, which has no functions. Leave --function and --input out", stored.path,
                words_of(stored.kind));
  return chosen_index(names, name, fmt::format("'{}'", stored.path));
}

Tensor any_key() { return zeros({2}, {.dtype = kUInt64}); }

constexpr const char* kNote =
    "Times: each call alone, the least of several runs on this machine. A call of the function "
    "fuses calls";

TimedGraph time_saved(const Stored& stored, std::size_t function, io::NamedTensors inputs) {
  const saved::internal::Loaded& loaded = *stored.loaded;
  const std::vector<saved::internal::SavedGraph>& graphs =
      loaded.content.functions[function].graphs;
  const saved::internal::Match match = saved::internal::match_named(loaded, function, inputs);
  TimedGraph out{.function = function, .at_sizes = match.trace->graph};
  out.graph = static_cast<std::size_t>(match.graph - graphs.data());
  std::vector<Tensor> arguments;
  for (std::size_t i = 0; i < match.tensors.size(); ++i) {
    const saved::internal::SavedTensor& x = match.graph->tensors[i];
    if (!x.is_absent && x.state < 0) arguments.push_back(*match.tensors[i]);
  }
  std::vector<Tensor> values;
  std::size_t next = 0;
  for (const GraphInput& input : stored.functions[function].graphs[out.graph].inputs) {
    if (input.source == GraphInput::Source::kArgument) {
      values.push_back(arguments[next++]);
    } else if (input.source == GraphInput::Source::kKey) {
      values.push_back(any_key());
    } else {
      values.push_back(saved::internal::value_of(loaded, match, input));
    }
  }
  out.micros = node_times(*out.at_sizes, values);
  return out;
}

TimedGraph time_graph(const Stored& stored, std::size_t function, const io::NamedTensors& inputs) {
  const StoredGraph& from = stored.functions[function].graphs[0];
  const std::vector<Tensor> values = graph_inputs(*from.graph, inputs);
  TimedGraph out{.function = function, .graph = 0};
  out.at_sizes = from.symbolic ? from.symbolic->graph_for(values) : from.graph;
  out.micros = node_times(*out.at_sizes, values);
  return out;
}

// The least time of a whole call. The first calls make the plan and its machine code.
double call_micros(const saved::Function& f, const io::NamedTensors& inputs) {
  using Clock = std::chrono::steady_clock;
  double best = 1e300;
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < 30 && (i < 3 || Clock::now() - begin < std::chrono::seconds(2)); ++i) {
    const Clock::time_point start = Clock::now();
    f.call_named(inputs, CallSite{});
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count() * 1e6);
  }
  return best;
}

TimedGraph time_graph_of(const InspectOptions& options, const Stored& stored) {
  const std::size_t function = chosen(stored, options.function);
  const PhaseScope phase(options.training ? Phase::kTraining : Phase::kInference);
  if (stored.kind != StoredKind::kFunctions) {
    const Graph& graph = *stored.functions[function].graphs[0].graph;
    TimedGraph out = time_graph(
        stored, function,
        read_inputs(options.inputs, graph_input_names(graph), stored.functions[function].name));
    out.note = fmt::format("{}.", kNote);
    return out;
  }
  const saved::Program program = saved::load(stored.path, {}, CallSite{});
  const saved::Function f = program.function(stored.functions[function].name, CallSite{});
  const io::NamedTensors inputs = read_inputs(options.inputs, named_inputs(program, f), f.name());
  TimedGraph out = time_saved(stored, function, inputs);
  const double sum = std::accumulate(out.micros.begin(), out.micros.end(), 0.0);
  out.note = fmt::format("{}: {} in all calls, {} for a call of the function.", kNote,
                         time_text(sum), time_text(call_micros(f, inputs)));
  return out;
}

void print_times(const TimedGraph& timed) {
  const double sum = std::accumulate(timed.micros.begin(), timed.micros.end(), 0.0);
  for (std::size_t i = 0; i < timed.micros.size(); ++i) {
    const Graph::Node node = timed.at_sizes->node(i);
    const std::string type =
        node.results > 0 ? internal::type_text(timed.at_sizes->type(node.first_result)) : "";
    fmt::print("{:>12} {:5.1f} %  {:<28} {:<28} {}\n", time_text(timed.micros[i]),
               sum > 0 ? 100 * timed.micros[i] / sum : 0, internal::op_text(node.op), type,
               line_of(node.where));
  }
  fmt::print("{}\n", timed.note);
}

void print_state(const Stored& stored) {
  int64_t bytes = 0;
  for (const auto& [path, x] : stored.state) {
    fmt::print("{}: {}\n", shown(path), x.type);
    bytes += x.value.has_value() ? x.value.nbytes() : 0;
  }
  const std::size_t count = stored.state.size();
  fmt::print("{} tensor{}, {}\n", count, count == 1 ? "" : "s", bytes_text(bytes));
  for (const auto& [key, value] : stored.metadata) {
    fmt::print("metadata {}: {}\n", shown(key), without_controls(shortened(value, 200)));
  }
}

void print_graphs(const Stored& stored, const std::string& only) {
  if (!only.empty()) chosen(stored, only);
  for (const StoredFunction& function : stored.functions) {
    if (!only.empty() && function.name != only) continue;
    const StoredGraph& graph = function.graphs[0];
    fmt::print("{}", without_controls(
                         to_text(*graph.graph, {.elide_constants = true, .types = true}), true));
    if (graph.symbolic) fmt::print("{}", without_controls(graph.symbolic->to_string(), true));
  }
}

void print_functions(const Stored& stored, const std::string& function) {
  const saved::Program program = saved::internal::ProgramAccess::of(stored.loaded);
  if (function.empty()) {
    fmt::print("{}", without_controls(program.to_string(), true));
    return;
  }
  const saved::Function f = program.function(function, CallSite{});
  fmt::print("{}", without_controls(f.explain(), true));
  for (const GraphFunction& graph : f.graphs())
    fmt::print("\n{}", without_controls(graph.to_string(), true));
}

void print(const InspectOptions& options, const Stored& stored) {
  switch (stored.kind) {
    case StoredKind::kFunctions:
      return print_functions(stored, options.function);
    case StoredKind::kGraphs:
      return print_graphs(stored, options.function);
    case StoredKind::kCheckpoint:
    case StoredKind::kTensors:
      if (!options.function.empty()) chosen(stored, options.function);
      print_state(stored);
  }
}

nn::GraphNames names_of(const StoredGraph& graph) {
  nn::GraphNames out{.outputs = graph.outputs};
  for (const GraphInput& input : graph.inputs) {
    const bool is_key = input.source == GraphInput::Source::kKey;
    out.inputs.push_back(is_key ? "key" : input.path);
    out.is_state.push_back(input.source == GraphInput::Source::kState);
  }
  return out;
}

// A folder of logs for the graph of a function: "predict", "predict_2", ...
std::string new_folder(const std::string& function, std::set<std::string>& used) {
  // A name in a file of graphs may have slashes, and more bytes than a name of a file may have.
  const std::string name = std::filesystem::path(function).filename().string();
  const bool is_none = name.empty() || name == ".." || name == ".";
  return saved::internal::unique_name(is_none ? "graph" : shortened(name, 200), used);
}

// Writes a file of logs, whole or not at all.
void write_events(const std::string& folder, const StoredGraph& graph) {
  std::string file;
  try {
    nn::EventFile events(folder, CallSite{});
    file = events.path();
    events.graph(*graph.graph, names_of(graph), CallSite{});
    events.flush();
  } catch (...) {
    std::error_code ignored;
    if (!file.empty()) std::filesystem::remove(file, ignored);
    throw;
  }
  fmt::print("{}\n", file);
}

// A folder of logs for each graph. Graphs for the sizes 1 and 0 are left out.
void write_tensorboard(const Stored& stored, const std::string& logs) {
  ETUDE_REQUIRE(!stored.functions.empty(),
                "'{}' is {}, which has no functions. TensorBoard shows the graphs of functions",
                stored.path, words_of(stored.kind));
  std::set<std::string> used;
  for (const StoredFunction& function : stored.functions) {
    for (const StoredGraph& graph : function.graphs) {
      if (graph.is_special) continue;
      const std::string folder = new_folder(function.name, used);
      write_events((std::filesystem::path(logs) / folder).string(), graph);
    }
  }
}

void inspect(const InspectOptions& options) {
  Stored stored = read_stored(options.path);
  std::optional<TimedGraph> timed;
  if (!options.inputs.empty()) timed = time_graph_of(options, stored);
  if (options.html.empty() && options.tensorboard.empty()) {
    if (timed) {
      print_times(*timed);
    } else {
      print(options, stored);
    }
    return;
  }
  if (!options.function.empty()) {  // the page or the logs of one function
    const std::size_t at = chosen(stored, options.function);
    StoredFunction only = std::move(stored.functions[at]);
    stored.functions.clear();
    stored.functions.push_back(std::move(only));
    if (timed) timed->function = 0;
  }
  if (!options.tensorboard.empty()) write_tensorboard(stored, options.tensorboard);
  if (options.html.empty()) return;
  internal::AtomicFile out(options.html);
  out.write(inspect_html(stored, timed ? &*timed : nullptr));
  out.commit();
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand(
      "inspect", "what a saved folder, a file of graphs or a checkpoint holds, as text or a page");
  command
      ->add_option("PATH", options->path,
                   "a folder of saved functions, a file of graphs, a checkpoint or a safetensors "
                   "file")
      ->required();
  command->add_option("--function", options->function, "the graphs of this function only");
  command->add_option("--html", options->html,
                      "writes a page: graphs with sizes, dtypes and lines of your source, and the "
                      "state by path. It needs no other file");
  command->add_option("--tensorboard", options->tensorboard,
                      "writes the graphs for TensorBoard: a folder of logs for each function");
  add_input_options(*command, options->inputs,
                    "also the time of each call: FILE.npy, or NAME=FILE.npy for each of several "
                    "inputs");
  command->add_flag("--training", options->training, "with inputs: in the training phase");
  command->callback([options] { inspect(*options); });
}

}  // namespace etude::tools
