// SPDX-License-Identifier: Apache-2.0
// `etude run`: functions of a saved folder (etude/saved/saved.h). Also the parts of this command
// that other commands share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "etude/core/context/ambient.h"
#include "etude/io/safetensors.h"
#include "etude/saved/content.h"
#include "etude/saved/program.h"

namespace etude::tools {

// The function of this name; without a name, the only function.
saved::Function chosen_function(const saved::Program& program, const std::string& name);

// The place of `name` among the names of functions; without a name, of the only function. `where`
// begins the texts of errors, such as "this folder".
// throws: kInvalidArgument if there is no name and not one function; kNotFound for an unknown name.
std::size_t chosen_index(const std::vector<std::string>& names, const std::string& name,
                         const std::string& where);

// The options --input and --inputs: files with the inputs of a function.
struct NamedInputs {
  std::vector<std::string> input;
  std::string inputs;
  bool empty() const { return input.empty() && inputs.empty(); }
};
void add_input_options(CLI::App& command, NamedInputs& to, const std::string& meaning);
// Reads the files. `names` are the inputs of `function`.
// throws: kInvalidArgument for a file without a name where the function has several inputs, and for
//         an input that is given twice; the errors of reading the files.
io::NamedTensors read_inputs(const NamedInputs& from, const std::vector<std::string>& names,
                             const std::string& function);
// The names of the inputs of a function in its exported signature; without a signature, their
// paths.
std::vector<std::string> named_inputs(const saved::Program& program, const saved::Function& f);

// The option --graph: the number of a graph in `etude inspect --function`.
CLI::Option* add_graph_option(CLI::App& command, int64_t& graph);
// Keeps the graph with this number in `etude inspect --function`, and the graphs for the sizes 1
// and 0 with the same host values. Returns the phase of the graph. 0: keeps all, and returns
// `otherwise`. throws: kInvalidArgument for a number that no graph has.
Phase keep_graph(saved::internal::SavedFunction& function, int64_t number, Phase otherwise);
// Tensors by name do not choose among graphs that differ in a host value only.
// throws: kInvalidArgument, with the values, if graphs of the phase take these tensors with several
//         values of a host argument.
void require_one_host_value(const saved::internal::Content& content,
                            const saved::internal::SavedFunction& function,
                            const io::NamedTensors& inputs, const std::string& folder);
// The same for all graphs of a phase, where no tensors choose the graph.
void require_one_host_value(const saved::internal::SavedFunction& function, Phase phase,
                            const std::string& folder);

// Adds the command with all that it does.
void add_run_command(CLI::App& app);

}  // namespace etude::tools
