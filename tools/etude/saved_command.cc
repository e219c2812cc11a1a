// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/saved_command.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/context/ambient.h"
#include "etude/io/npy.h"
#include "etude/io/safetensors.h"
#include "etude/ops.h"
#include "etude/saved/graph_inputs.h"
#include "etude/saved/loaded.h"
#include "etude/saved/match.h"
#include "etude/saved/saved.h"
#include "tools/etude/name_text.h"
#include "tools/etude/option_words.h"

namespace etude::tools {

std::size_t chosen_index(const std::vector<std::string>& names, const std::string& name,
                         const std::string& where) {
  ETUDE_REQUIRE(!names.empty(), "{} has no function", where);
  ETUDE_REQUIRE(!name.empty() || names.size() == 1,
                "{} has {} functions: {}. Choose one by --function", where, names.size(),
                shown(names));
  const auto found = name.empty() ? names.begin() : std::ranges::find(names, name);
  ETUDE_REQUIRE_CODE(kNotFound, found != names.end(), "{} has no function '{}'. There are: {}",
                     where, shown(name), shown(names));
  return static_cast<std::size_t>(found - names.begin());
}

saved::Function chosen_function(const saved::Program& program, const std::string& name) {
  if (!name.empty()) return program.function(name, CallSite{});
  const std::vector<std::string> names = program.functions();
  return program.function(names[chosen_index(names, name, "this folder")], CallSite{});
}

namespace {

namespace fs = std::filesystem;
using saved::internal::Content;
using saved::internal::SavedFunction;
using saved::internal::SavedGraph;
using saved::internal::SavedHost;

bool has_same_hosts(const SavedGraph& a, const SavedGraph& b) {
  return std::ranges::equal(a.hosts, b.hosts, [](const SavedHost& x, const SavedHost& y) {
    return x.path == y.path && x.text == y.text;
  });
}

// Whether a tensor of these sizes may be passed; the open sizes get their values.
bool takes(const saved::Port& port, const Tensor& x, std::map<std::string, int64_t>& sizes) {
  if (x.dtype() != *port.dtype || static_cast<std::size_t>(x.rank()) != port.sizes->size()) {
    return false;
  }
  for (int axis = 0; axis < x.rank(); ++axis) {
    const saved::PortSize& size = (*port.sizes)[static_cast<std::size_t>(axis)];
    const int64_t wanted =
        size.is_open() ? sizes.emplace(size.name, x.shape()[axis]).first->second : size.number;
    if (wanted != x.shape()[axis]) return false;
  }
  return true;
}

// Whether the graph takes these tensors, by the names of the function's inputs.
bool takes(const SavedFunction& function, const saved::GraphSignature& graph,
           const io::NamedTensors& inputs) {
  std::map<std::string, int64_t> sizes;
  std::size_t used = 0;
  for (const saved::Port& port : graph.inputs) {
    if (port.kind != saved::Port::Kind::kTensor || !port.dtype) continue;
    const auto found = inputs.find(saved::internal::argument_name(function, port.name));
    if (found == inputs.end() || !takes(port, found->second, sizes)) return false;
    ++used;
  }
  return used == inputs.size();
}

struct NumberedGraph {
  std::size_t number = 0;
  const SavedGraph* graph = nullptr;
};

void require_equal_hosts(const SavedFunction& function, const std::vector<NumberedGraph>& graphs,
                         const std::string& folder) {
  std::map<std::string, std::vector<std::string>> values;
  for (const NumberedGraph& each : graphs) {
    for (const SavedHost& host : each.graph->hosts) {
      std::vector<std::string>& known = values[host.path];
      if (std::ranges::find(known, host.text) == known.end()) known.push_back(host.text);
    }
  }
  for (const auto& [path, texts] : values) {
    if (texts.size() < 2) continue;
    std::vector<std::string> choices;
    for (const NumberedGraph& each : graphs) {
      const auto host = std::ranges::find(each.graph->hosts, path, &SavedHost::path);
      if (host == each.graph->hosts.end()) continue;
      choices.push_back(fmt::format("--graph {} for {}", each.number, shown(host->text)));
    }
    const std::size_t all = choices.size();
    choices.resize(std::min<std::size_t>(all, 8));
    ETUDE_THROW(kInvalidArgument,
                "function '{0}' has graphs for {1} values of the argument '{2}', and tensors do "
                "not choose among them. Pass {3}{4}. `etude inspect {5} --function {0}` shows the "
                "graphs",
                shown(function.name), texts.size(), shown(path), fmt::join(choices, ", "),
                all > choices.size() ? ", ..." : "", folder);
  }
}

struct RunOptions {
  std::string folder, function, output;
  NamedInputs inputs;
  int64_t graph = 0;
  bool training = false;
};

// "--input x.npy" for a lone input; else "--input image=x.npy".
void add_input(io::NamedTensors& to, const std::string& text, const std::vector<std::string>& names,
               const std::string& function) {
  const std::size_t at = text.find('=');
  std::string name = at == text.npos ? "" : text.substr(0, at);
  const std::string file = at == text.npos ? text : text.substr(at + 1);
  if (name.empty()) {
    ETUDE_REQUIRE(names.size() == 1,
                  "function '{}' has {} inputs: {}. Name the input: --input {}={}", function,
                  names.size(), fmt::join(names, ", "), names.empty() ? "x" : names[0], file);
    name = names[0];
  }
  ETUDE_REQUIRE(to.emplace(name, io::load_npy(file, CallSite{})).second,
                "input '{}' is given twice", name);
}

// Before the function runs. throws: for a file that would get the bytes of another form.
void require_form(const std::string& output) {
  const std::string extension = fs::path(output).extension().string();
  ETUDE_REQUIRE(extension.empty() || extension == ".npy" || extension == ".safetensors",
                "--output is '{}', but results are written as FILE.npy or FILE.safetensors",
                output);
}

void write(const io::NamedTensors& results, const std::string& output) {
  if (output.empty()) {
    for (const auto& [name, x] : results) {
      std::ostringstream text;
      text << x;
      fmt::print("{}: {}\n{}\n", name, x.type()->to_string(), text.str());
    }
    return;
  }
  if (!output.ends_with(".npy")) return io::save_safetensors(output, results, {}, CallSite{});
  ETUDE_REQUIRE(results.size() == 1,
                "{} holds one tensor, but there are {} results. Write a .safetensors file", output,
                results.size());
  io::save_npy(output, results.begin()->second, CallSite{});
}

void run(const RunOptions& options) {
  require_form(options.output);
  saved::internal::Content content = saved::internal::read_content(options.folder, 0);
  std::vector<std::string> names;
  for (const SavedFunction& each : content.functions) names.push_back(each.name);
  const std::size_t at = chosen_index(names, options.function, "this folder");
  const PhaseScope phase(keep_graph(content.functions[at], options.graph,
                                    options.training ? Phase::kTraining : Phase::kInference));
  const saved::Program program =
      saved::internal::ProgramAccess::make(options.folder, std::move(content));
  const saved::Function f = program.function(names[at], CallSite{});
  const io::NamedTensors inputs = read_inputs(options.inputs, named_inputs(program, f), f.name());
  if (options.graph == 0) {
    const Content& known = saved::internal::ProgramAccess::content_of(program);
    require_one_host_value(known, known.functions[at], inputs, options.folder);
  }
  write(f.call_named(inputs, CallSite{}), options.output);
}

}  // namespace

CLI::Option* add_graph_option(CLI::App& command, int64_t& graph) {
  return command.add_option("--graph", graph, "its number in `etude inspect --function`")
      ->check(whole_number(1));
}

Phase keep_graph(SavedFunction& function, int64_t number, Phase otherwise) {
  if (number == 0) return otherwise;
  const std::size_t count = function.graphs.size();
  ETUDE_REQUIRE(static_cast<uint64_t>(number) <= count,
                "--graph is {}, but function '{}' has {} graph{}", number, shown(function.name),
                count, count == 1 ? "" : "s");
  SavedGraph kept = std::move(function.graphs[static_cast<std::size_t>(number - 1)]);
  function.graphs.erase(function.graphs.begin() + (number - 1));
  std::erase_if(function.graphs, [&](const SavedGraph& each) {
    return kept.is_special || !each.is_special || each.phase != kept.phase ||
           !has_same_hosts(each, kept);
  });
  const Phase phase = kept.phase;
  function.graphs.insert(function.graphs.begin(), std::move(kept));
  return phase;
}

void require_one_host_value(const Content& content, const SavedFunction& function,
                            const io::NamedTensors& inputs, const std::string& folder) {
  std::vector<NumberedGraph> graphs;
  for (std::size_t i = 0; i < function.graphs.size(); ++i) {
    const SavedGraph& graph = function.graphs[i];
    if (graph.phase != ambient().phase || graph.is_special || graph.hosts.empty()) continue;
    if (takes(function, saved::internal::signature_of(content, graph), inputs)) {
      graphs.push_back({i + 1, &graph});
    }
  }
  require_equal_hosts(function, graphs, folder);
}

void require_one_host_value(const SavedFunction& function, Phase phase, const std::string& folder) {
  std::vector<NumberedGraph> graphs;
  for (std::size_t i = 0; i < function.graphs.size(); ++i) {
    const SavedGraph& graph = function.graphs[i];
    if (graph.phase == phase && !graph.is_special) graphs.push_back({i + 1, &graph});
  }
  require_equal_hosts(function, graphs, folder);
}

void add_input_options(CLI::App& command, NamedInputs& to, const std::string& meaning) {
  command.add_option("--input", to.input, meaning)->allow_extra_args(false);
  command.add_option("--inputs", to.inputs, "safetensors file with the inputs by name");
}

io::NamedTensors read_inputs(const NamedInputs& from, const std::vector<std::string>& names,
                             const std::string& function) {
  io::NamedTensors out;
  if (!from.inputs.empty()) out = io::load_safetensors(from.inputs, CallSite{}).tensors;
  for (const std::string& each : from.input) add_input(out, each, names, function);
  return out;
}

std::vector<std::string> named_inputs(const saved::Program& program, const saved::Function& f) {
  for (const saved::ExportedSignature& exported : program.signatures()) {
    if (exported.function == f.name()) return exported.inputs;
  }
  std::vector<std::string> out;
  const std::vector<saved::GraphSignature> signatures = f.signatures();
  if (signatures.empty()) return out;
  for (const saved::Port& port : signatures[0].inputs) {
    if (port.kind == saved::Port::Kind::kTensor) out.push_back(port.name);
  }
  return out;
}

void add_run_command(CLI::App& app) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "runs a saved function on tensors from files");
  command->add_option("FOLDER", options->folder, "as saved::save() writes it")->required();
  command->add_option("--function", options->function, "which function, if there are several");
  add_input_options(*command, options->inputs,
                    "FILE.npy, or NAME=FILE.npy for each of several inputs");
  command->add_option("--output", options->output,
                      "FILE.npy for a lone result, FILE.safetensors for all; printed otherwise");
  CLI::Option* graph = add_graph_option(*command, options->graph);
  command->add_flag("--training", options->training, "in the training phase")->excludes(graph);
  command->callback([options] { run(*options); });
}

}  // namespace etude::tools
