// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/graph_command.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/codegen/compile.h"
#include "etude/core/call/builtin.h"
#include "etude/files/atomic_file.h"
#include "etude/files/file_reader.h"
#include "etude/graph/binary.h"
#include "etude/graph/diff.h"
#include "etude/graph/text/dump.h"
#include "etude/graph/text/parse.h"
#include "etude/graph/text/print.h"
#include "etude/io/safetensors.h"
#include "etude/passes/decisions.h"
#include "etude/passes/pipeline.h"
#include "etude/plan/plan.h"
#include "tools/etude/diff_command.h"
#include "tools/etude/name_text.h"
#include "tools/etude/pages/plan_html.h"

namespace etude::tools {
namespace {

struct GraphOptions {
  std::string file, other, name, inputs, output, html;
  std::string form;
  bool json = false, dot = false, full = false, passes = false;
  bool why = false, ir = false, assembly = false;
};

// fn(bytes of the file); errors of fn name the file.
template <class F>
auto read_file(const std::string& file, const F& fn) {
  ETUDE_REQUIRE_CODE(kDataLoss, graph_form(file) != GraphForm::kNone,
                     "{} is no file of graphs: its first bytes are neither those of a graph in "
                     "bytes nor text",
                     file);
  const internal::FileBytes content(file);
  try {
    return fn(content.text());
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", file, error.what()));
  }
}

// The end of a name in a text that begins at `at`: of the name itself, which may be quoted.
std::size_t end_of_name(std::string_view text, std::size_t at) {
  if (at < text.size() && text[at] == '"') {
    for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
  }
  return std::min(text.find_first_of("(),[]{} \t\r\n", at), text.size());
}

// A text holds one function. throws: for a graph that no line names, which would be lost.
void require_one_function(std::string_view text) {
  std::set<std::string_view> named;
  for (std::size_t at = text.find('@'); at != text.npos; at = text.find('@', at + 1)) {
    named.insert(text.substr(at + 1, end_of_name(text, at + 1) - at - 1));
  }
  constexpr std::string_view kStart = "\ngraph ";
  std::size_t at = text.starts_with(kStart.substr(1)) ? 0 : text.find(kStart);
  while ((at = text.find(kStart, at + 1)) != text.npos) {
    const std::size_t begin = text.find_first_not_of(" \t", at + kStart.size());
    const std::string_view name = text.substr(begin, end_of_name(text, begin) - begin);
    ETUDE_REQUIRE(
        named.contains(name),
        "no line names graph '{}' as @{}, and a text holds one function, the first graph. "
        "Write each function in a file of its own",
        shown(name), shown(name));
  }
}

std::vector<NamedGraph> graphs_in(std::string_view bytes) {
  if (is_binary_graph(bytes) || is_symbolic_binary(bytes)) return read_binary_graphs(bytes);
  GraphRef graph = parse_graph(bytes);
  require_one_function(bytes);
  std::vector<NamedGraph> out;
  out.push_back({graph->name(), std::move(graph)});
  return out;
}

// The graph of this name in a file; without a name the only graph.
NamedGraph find_graph(std::string_view bytes, const std::string& name) {
  std::vector<NamedGraph> all = graphs_in(bytes);
  std::vector<std::string> names;
  for (const NamedGraph& each : all) names.push_back(fmt::format("'{}'", each.name));
  ETUDE_REQUIRE(!name.empty() || all.size() == 1,
                "this file holds {} graphs: {}. Choose one by --name", all.size(),
                fmt::join(names, ", "));
  const auto found = std::ranges::find_if(
      all, [&](const NamedGraph& each) { return name.empty() || each.name == name; });
  ETUDE_REQUIRE_CODE(kNotFound, found != all.end(), "this file holds no graph '{}'. There are: {}",
                     name, fmt::join(names, ", "));
  return std::move(*found);
}

NamedGraph load_named(const std::string& file, const std::string& name) {
  return read_file(file, [&](std::string_view bytes) { return find_graph(bytes, name); });
}

void convert(const GraphOptions& options) {
  const GraphRef graph = load_graph(options.file, options.name);
  internal::AtomicFile out(options.output);
  const bool is_text =
      options.form.empty() ? options.output.ends_with(".txt") : options.form == "text";
  out.write(is_text ? to_text(*graph) : to_binary(*graph));
  out.commit();
}

void show(const GraphOptions& options) {
  GraphRef graph = load_graph(options.file, options.name);
  if (options.passes) graph = run_passes(*graph);
  if (options.json) {
    fmt::print("{}", to_json(*graph));
  } else if (options.dot) {
    fmt::print("{}", to_dot(*graph));
  } else if (options.full) {
    fmt::print("{}", to_text(*graph));
  } else {
    fmt::print("{}",
               without_controls(to_text(*graph, {.elide_constants = true, .types = true}), true));
  }
}

void compare(const GraphOptions& options) {
  end_with_status([&] {
    const std::string text =
        diff(*load_graph(options.file, options.name), *load_graph(options.other, options.name));
    fmt::print("{}", without_controls(text, true));
    return !text.empty();
  });
}

void run(const GraphOptions& options) {
  const NamedGraph named = load_named(options.file, options.name);
  // The names of inputs are the same at all sizes.
  const Graph& names = named.graph ? *named.graph : *named.symbolic->graphs().front();
  io::NamedTensors tensors;
  if (!options.inputs.empty()) tensors = io::load_safetensors(options.inputs, CallSite{}).tensors;
  const std::vector<Tensor> given = graph_inputs(names, tensors);
  const std::vector<Tensor> results =
      interpret(named.graph ? *named.graph : *named.symbolic->graph_for(given), given);
  io::NamedTensors out;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].has_value()) continue;
    const std::string name = !named.outputs.empty() ? named.outputs[i]
                             : results.size() == 1  ? "y"
                                                    : fmt::format("ys/{}", i);
    out.emplace(name, to_dense(results[i]));
  }
  io::save_safetensors(options.output, out, {}, CallSite{});
}

// The code of each fused call and each cluster, as the compiler makes it for this machine.
void print_code(const internal::Plan& plan, bool assembly) {
  const Graph& graph = plan.graph();
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Graph::Node node = graph.node(i);
    if (&node.op != &internal::program_op()) continue;
    const auto* program = std::get<const ScalarDef*>(node.attrs.value("program"))->program;
    fmt::print("\n; {}\n{}", internal::call_text(node),
               assembly ? codegen::assembly_text(*program) : codegen::ir_text(*program));
  }
  for (const internal::Plan::ClusterRange& range : plan.clusters()) {
    const internal::Cluster& cluster = range.code->cluster();
    fmt::print(
        "\n; the cluster from {} on\n{}", internal::call_text(graph.node(range.first)),
        assembly ? codegen::cluster_assembly_text(cluster) : codegen::cluster_ir_text(cluster));
  }
}

void plan(const GraphOptions& options) {
  const GraphRef graph = load_graph(options.file, options.name);
  if (options.passes) {
    std::vector<PassReport> reports;
    run_passes(*graph, &reports);
    fmt::print("{}", to_string(reports));
  }
  internal::DecisionScope decisions;
  const internal::RefPtr<const internal::Plan> made = internal::Plan::of(*graph);
  fmt::print("{}", without_controls(made->to_string(), true));
  if (options.why) {
    for (const internal::Decision& d : decisions.take()) fmt::print("{}: {}\n", d.who, d.text);
  }
  if (options.ir) print_code(*made, false);
  if (options.assembly) print_code(*made, true);
  if (options.html.empty()) return;
  internal::AtomicFile out(options.html);
  out.write(plan_html(*made));
  out.commit();
}

}  // namespace

std::vector<std::string> graph_input_names(const Graph& graph) {
  std::vector<std::string> out;
  for (const Graph::Input& input : graph.inputs()) {
    const auto is_same = [&](const Graph::Input& other) { return other.name == input.name; };
    const auto count = std::ranges::count_if(graph.inputs(), is_same);
    const auto before = std::ranges::count_if(graph.inputs().first(out.size()), is_same);
    out.push_back(count == 1 ? input.name : fmt::format("{}/{}", input.name, before));
  }
  return out;
}

std::vector<Tensor> graph_inputs(const Graph& graph, const io::NamedTensors& given) {
  const std::vector<std::string> names = graph_input_names(graph);
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = given.find(names[i]);
    ETUDE_REQUIRE(
        found != given.end(),
        "input '{}' of graph '{}' is missing: there is no tensor of that name, {}, in --inputs",
        names[i], graph.name(), graph.inputs()[i].type->to_string());
    out.push_back(found->second);
  }
  // A misspelt input must not pass for another.
  for (const auto& entry : given) {
    ETUDE_REQUIRE(std::ranges::find(names, entry.first) != names.end(),
                  "graph '{}' has no input '{}'. There are: {}", graph.name(), entry.first,
                  fmt::join(names, ", "));
  }
  return out;
}

GraphForm graph_form(const std::string& file) {
  constexpr uint64_t kHead = 64 << 10;
  const internal::FileReader from(file);
  if (from.size() == 0) return GraphForm::kEmpty;
  std::string head(static_cast<std::size_t>(std::min(from.size(), kHead)), '\0');
  from.read(0, {reinterpret_cast<uint8_t*>(head.data()), head.size()});
  if (is_binary_graph(head) || is_symbolic_binary(head)) return GraphForm::kBytes;
  if (head.find('\0') != head.npos) return GraphForm::kNone;
  const bool has_graph = head.starts_with("graph ") || head.find("\ngraph ") != head.npos;
  return has_graph ? GraphForm::kText : GraphForm::kMaybeText;
}

std::vector<NamedGraph> load_graphs(const std::string& file) { return read_file(file, graphs_in); }

GraphRef load_graph(const std::string& file, const std::string& name) {
  return read_file(file, [&](std::string_view bytes) {
    const NamedGraph named = find_graph(bytes, name);
    ETUDE_REQUIRE(named.graph,
                  "this is a symbolic graph: a graph for many sizes. `etude graph run` takes it");
    return named.graph;
  });
}

void add_graph_commands(CLI::App& app) {
  const auto options = std::make_shared<GraphOptions>();
  CLI::App* graph = app.add_subcommand("graph", "graphs in files")->require_subcommand(1);
  CLI::App* show_command = graph->add_subcommand(
      "show", "a graph with its types, without the elements of long constants");
  show_command->add_option("FILE", options->file)->required();
  CLI::Option* json = show_command->add_flag("--json", options->json, "as JSON");
  CLI::Option* dot =
      show_command->add_flag("--dot", options->dot, "for Graphviz: ... --dot | dot -Tsvg")
          ->excludes(json);
  show_command->add_flag("--full", options->full, "the exact text, with all elements")
      ->excludes(json)
      ->excludes(dot);
  show_command->add_flag("--passes", options->passes, "as the passes leave it, which is what runs");
  show_command->callback([options] { show(*options); });
  CLI::App* diff_command =
      graph->add_subcommand("diff", "what differs first between two graphs, and in which lines");
  diff_command->add_option("A", options->file)->required();
  diff_command->add_option("B", options->other)->required();
  diff_command->callback([options] { compare(*options); });
  CLI::App* plan_command = graph->add_subcommand(
      "plan", "the steps in which a graph runs, and where in memory their values lie");
  plan_command->add_option("FILE", options->file)->required();
  plan_command->add_flag("--passes", options->passes,
                         "first, what each pass did and how long it took");
  plan_command->add_flag("--why", options->why,
                         "what was decided by cost, and why: what is one sweep, what is computed "
                         "again, and which steps are a cluster");
  plan_command->add_flag("--ir", options->ir, "the code of fused calls and clusters, as of LLVM");
  plan_command->add_flag("--asm", options->assembly, "the same for this machine, as assembly");
  plan_command->add_option("--html", options->html, "writes a page with a picture of the plan");
  plan_command->callback([options] { plan(*options); });
  CLI::App* convert_command =
      graph->add_subcommand("convert", "the same graph in another form: bytes, or text for people");
  convert_command->add_option("FROM", options->file)->required();
  convert_command->add_option("TO", options->output)->required();
  convert_command
      ->add_option("--to", options->form,
                   "the form of TO; otherwise text for FILE.txt, and bytes for others")
      ->check(CLI::IsMember({"binary", "text"}));
  convert_command->callback([options] { convert(*options); });
  CLI::App* run_command =
      graph->add_subcommand("run", "runs a graph on tensors of a safetensors file");
  run_command->add_option("FILE", options->file)->required();
  run_command->add_option("--inputs", options->inputs, "safetensors file with the inputs by name");
  run_command
      ->add_option("--output", options->output,
                   "safetensors file for the results: by their paths, or y, or ys/0, ys/1, ...")
      ->required();
  run_command->callback([options] { run(*options); });
  for (CLI::App* command :
       {show_command, diff_command, plan_command, convert_command, run_command}) {
    command->add_option("--name", options->name, "which graph of a file of several");
  }
}

}  // namespace etude::tools
