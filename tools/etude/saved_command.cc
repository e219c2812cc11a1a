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
#include "tools/etude/name_text.h"

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

struct RunOptions {
  std::string folder, function, output;
  NamedInputs inputs;
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
  const saved::Program program = saved::load(options.folder, {}, CallSite{});
  const saved::Function f = chosen_function(program, options.function);
  const io::NamedTensors inputs = read_inputs(options.inputs, named_inputs(program, f), f.name());
  const PhaseScope phase(options.training ? Phase::kTraining : Phase::kInference);
  write(f.call_named(inputs, CallSite{}), options.output);
}

}  // namespace

void add_input_options(CLI::App& command, NamedInputs& to, const std::string& meaning) {
  command.add_option("--input", to.input, meaning);
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
  command->add_flag("--training", options->training, "in the training phase");
  command->callback([options] { run(*options); });
}

}  // namespace etude::tools
