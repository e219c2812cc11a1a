// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/saved_command.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/context/ambient.h"
#include "etude/io/npy.h"
#include "etude/io/safetensors.h"
#include "etude/ops.h"
#include "etude/saved/saved.h"

namespace etude::tools {

saved::Function chosen_function(const saved::Program& program, const std::string& name) {
  const std::vector<std::string> names = program.functions();
  ETUDE_REQUIRE(!name.empty() || names.size() == 1,
                "this folder has {} functions: {}. Choose one by --function", names.size(),
                fmt::join(names, ", "));
  return program.function(name.empty() ? names[0] : name);
}

namespace {

namespace fs = std::filesystem;

struct RunOptions {
  std::string folder, function, inputs, output;
  std::vector<std::string> input;
  bool training = false;
};

// The names of its inputs in its exported signature; without a signature, their paths.
std::vector<std::string> input_names(const saved::Program& program, const saved::Function& f) {
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
  ETUDE_REQUIRE(to.emplace(name, io::load_npy(file)).second, "input '{}' is given twice", name);
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
  if (!output.ends_with(".npy")) return io::save_safetensors(output, results);
  ETUDE_REQUIRE(results.size() == 1,
                "{} holds one tensor, but there are {} results. Write a .safetensors file", output,
                results.size());
  io::save_npy(output, results.begin()->second);
}

void run(const RunOptions& options) {
  const saved::Program program = saved::load(options.folder);
  const saved::Function f = chosen_function(program, options.function);
  io::NamedTensors inputs;
  if (!options.inputs.empty()) inputs = io::load_safetensors(options.inputs).tensors;
  const std::vector<std::string> names = input_names(program, f);
  for (const std::string& each : options.input) add_input(inputs, each, names, f.name());
  const PhaseScope phase(options.training ? Phase::kTraining : Phase::kInference);
  write(f.call_named(inputs), options.output);
}

void inspect(const std::string& folder, const std::string& function) {
  const saved::Program program = saved::load(folder);
  if (function.empty()) {
    fmt::print("{}", program.to_string());
    return;
  }
  const saved::Function f = program.function(function);
  fmt::print("{}", f.explain());
  for (const GraphFunction& graph : f.graphs()) fmt::print("\n{}", graph.to_string());
}

// Zeros of the type "float32[n,784]", in which a letter is an open size.
Tensor zeros_of(const std::string& type, int64_t size) {
  const std::size_t bracket = type.find('[');
  const std::optional<DType> dtype = dtype_named(type.substr(0, bracket));
  std::vector<int64_t> sizes;
  std::istringstream text(bracket == type.npos ? "" : type.substr(bracket + 1));
  for (std::string part; std::getline(text, part, ',');) {
    const bool is_number = !part.empty() && part[0] >= '0' && part[0] <= '9';
    if (part != "]") sizes.push_back(is_number ? std::stoll(part) : size);
  }
  ETUDE_CHECK(dtype.has_value(), "'{}' is no type", type);
  return zeros(sizes, {.dtype = *dtype});
}

}  // namespace

GraphRef load_saved_graph(const std::string& folder, const std::string& function, int64_t size) {
  const saved::Program program = saved::load(folder);
  const saved::Function f = chosen_function(program, function);
  const std::vector<saved::GraphSignature> signatures = f.signatures();
  ETUDE_REQUIRE_CODE(kFailedPrecondition, !signatures.empty(),
                     "function '{}' was saved without a graph. Call it once before it is saved",
                     f.name());
  const std::vector<std::string> names = input_names(program, f);
  io::NamedTensors inputs;
  std::size_t next = 0;
  for (const saved::Port& port : signatures[0].inputs) {
    if (port.kind != saved::Port::Kind::kTensor) continue;
    const std::string& name = names[next++];
    if (port.type != "absent") inputs.emplace(name, zeros_of(port.type, size));
  }
  return f.closed_graph(inputs);
}

void add_saved_commands(CLI::App& app) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* run_command = app.add_subcommand("run", "runs a saved function on tensors from files");
  run_command->add_option("FOLDER", options->folder, "as saved::save() writes it")->required();
  run_command->add_option("--function", options->function, "which function, if there are several");
  run_command->add_option("--input", options->input,
                          "FILE.npy, or NAME=FILE.npy for each of several inputs");
  run_command->add_option("--inputs", options->inputs, "safetensors file with the inputs by name");
  run_command->add_option(
      "--output", options->output,
      "FILE.npy for a lone result, FILE.safetensors for all; printed otherwise");
  run_command->add_flag("--training", options->training, "in the training phase");
  run_command->callback([options] { run(*options); });
  CLI::App* inspect_command =
      app.add_subcommand("inspect", "the functions, state and assets of a saved folder");
  inspect_command->add_option("FOLDER", options->folder, "as saved::save() writes it")->required();
  inspect_command->add_option("--function", options->function, "the graphs of this function");
  inspect_command->callback([options] { inspect(options->folder, options->function); });
}

}  // namespace etude::tools
