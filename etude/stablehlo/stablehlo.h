// SPDX-License-Identifier: Apache-2.0
// StableHLO: writes a function as a module that compilers read, such as XLA, in its text form.
//
//   stablehlo::save("lenet.mlir", saved::bind(predict, model));
//   stablehlo::save("lenet.mlir", saved::load("lenet").function("predict"));
//
// The module has one function, main: one graph of the function, with fixed sizes. Call the function
// before the export, or give it a signature. Weights are constants in the module, or arguments
// after the inputs. Attributes `etude.name` of arguments and results are their names, as in a saved
// function, and locations are the user's lines. docs/export/other_forms.md shows more.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/option_ranges.h"
#include "etude/saved/saved.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace stablehlo {

struct SaveOptions {
  // The name of the function, if the entries have several functions.
  std::string function = {};
  // The number of the graph in the list of saved::Function::explain(), from 1 on. 0: the first
  // graph that serves many sizes, or the first graph if no graph does.
  int64_t graph = 0;
  // Whether `graph` = 0 selects among the graphs of the training phase.
  bool training = false;
  // The sizes of a graph that serves many sizes, by name: {{"n", 8}}. The other sizes are
  // the sizes of the first call.
  std::map<std::string, int64_t> sizes = {};
  // Whether the state is passed as arguments, after the inputs and in the order of their names in
  // the module. A text has two characters for each byte of a constant.
  bool weights_as_arguments = false;

  static constexpr void ranges(const auto& option) {
    option("graph", &SaveOptions::graph, at_least(0));
  }
};

// Writes a function of these entries to `file`, which appears whole or not at all. saved::save()
// takes the same entries: a function, and the objects that hold its Variables.
//
// throws: kUnimplemented, with the user's line, for a call that has no form in StableHLO;
//         kUnimplemented for a function that changes state or draws random numbers;
//         kFailedPrecondition for a function without a graph, or with state without a value;
//         kNotFound for an unknown function; kInvalidArgument for an unknown graph or size, and for
//         several functions without a name in `options`; the errors of AtomicFile.
// cost:   the text in memory.
void save(const std::filesystem::path& file, const std::vector<saved::Entry>& entries,
          const SaveOptions& options = {}, CallSite where = CallSite::here());
// Writes a staged function, a bound function, a loaded function or a function of a loaded program.
// throws and cost: as above.
template <class R, class... A>
void save(const std::filesystem::path& file, const etude::Function<R(A...)>& f,
          const SaveOptions& options = {}, CallSite where = CallSite::here()) {
  save(file, std::vector{saved::Entry(saved::internal::entry_name(f.name()), f)}, options, where);
}
void save(const std::filesystem::path& file, const saved::Bound& f, const SaveOptions& options = {},
          CallSite where = CallSite::here());
void save(const std::filesystem::path& file, const saved::Function& f,
          const SaveOptions& options = {}, CallSite where = CallSite::here());
void save(const std::filesystem::path& file, const saved::Program& program,
          const SaveOptions& options = {}, CallSite where = CallSite::here());

}  // namespace stablehlo
}  // namespace etude
