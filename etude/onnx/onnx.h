// SPDX-License-Identifier: Apache-2.0
// Exports a function as an ONNX model for other programs, such as onnxruntime.
//
//   onnx::save("lenet.onnx", saved::bind(predict, model));
//   onnx::save("lenet.onnx", saved::load("lenet").function("predict"));
//
// The model holds one graph of the function and the values of its state. Call the function before
// the export, or give it a signature. Calls with two batch sizes make one model for all sizes.
// Inputs and results have the same names as in a saved function. Weights have their paths as names,
// such as "model/fc1/weight". docs/saved_functions.md shows more.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/option_ranges.h"
#include "etude/saved/saved.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace onnx {

struct SaveOptions {
  // The range of `opset`.
  static constexpr int64_t kOldestOpset = 17, kNewestOpset = 21;

  // The version of ONNX's ops that the model uses. A runtime accepts only versions that it knows.
  int64_t opset = 17;
  // The name of the function, if the entries have several functions.
  std::string function = {};
  // The number of the graph in the list of saved::Function::explain(), from 1 on. 0: the first
  // graph that serves many sizes, or the first graph if no graph does.
  int64_t graph = 0;
  // Whether `graph` = 0 selects among the graphs of the training phase. In this phase normalisation
  // uses the statistics of the batch.
  bool training = false;
  // Whether sizes that vary between calls stay open, as `dim_param`. If false, the model has the
  // sizes of the first call.
  bool open_sizes = true;
  // A text for readers of the model.
  std::string doc = {};
  // If all weights together have more bytes, they are written to a second file in the folder of the
  // model. Move both files together. A model in one file has less than 2 GiB.
  int64_t external_bytes = int64_t{1} << 30;

  static constexpr void ranges(const auto& option) {
    option("opset", &SaveOptions::opset, within(kOldestOpset, kNewestOpset));
    option("graph", &SaveOptions::graph, at_least(0));
    option("external_bytes", &SaveOptions::external_bytes, within(0, int64_t{1} << 30));
  }
};

namespace internal {
// Returns the name of an entry for a function of this name. The name of an entry has no '/'.
std::string entry_name(const std::string& name);
}  // namespace internal

// Writes a function of these entries to `file`, which appears whole or not at all. saved::save()
// takes the same entries: a function, and the objects that hold its Variables.
//
// throws: kUnimplemented, with the user's line, for a call that has no form in ONNX; kUnimplemented
//         for a function that changes state or draws random numbers; kFailedPrecondition for a
//         function without a graph, or with state without a value; kNotFound for an unknown
//         function; kInvalidArgument for an unknown graph, and for several functions without a
//         name in `options`; the errors of AtomicFile.
// cost:   no copy of a weight, unless ONNX has its axes in another order.
void save(const std::filesystem::path& file, const std::vector<saved::Entry>& entries,
          const SaveOptions& options = {}, CallSite where = CallSite::here());
// Writes a staged function, a bound function, a loaded function or a function of a loaded program.
// throws and cost: as above.
template <class R, class... A>
void save(const std::filesystem::path& file, const etude::Function<R(A...)>& f,
          const SaveOptions& options = {}, CallSite where = CallSite::here()) {
  save(file, std::vector{saved::Entry(internal::entry_name(f.name()), f)}, options, where);
}
void save(const std::filesystem::path& file, const saved::Bound& f, const SaveOptions& options = {},
          CallSite where = CallSite::here());
void save(const std::filesystem::path& file, const saved::Function& f,
          const SaveOptions& options = {}, CallSite where = CallSite::here());
void save(const std::filesystem::path& file, const saved::Program& program,
          const SaveOptions& options = {}, CallSite where = CallSite::here());

}  // namespace onnx
}  // namespace etude
