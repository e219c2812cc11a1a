// SPDX-License-Identifier: Apache-2.0
// ONNX: a function as a model that other programs run, such as onnxruntime.
//
//   onnx::save("lenet.onnx", saved::bind(predict, model));
//   onnx::save("lenet.onnx", saved::load("lenet").function("predict"));
//
// The model holds one graph of the function, and the values of its state. Call the function before
// it is exported, or give it a signature. Calls with two sizes of a batch make one model for all
// sizes. Inputs and results have the names of saved functions, and weights their paths,
// "model/fc1/weight". docs/saved_functions.md shows more.
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
  // The versions of ONNX's ops that a model may use.
  static constexpr int64_t kOldestOpset = 17, kNewestOpset = 21;

  // The version of ONNX's ops. Runtimes take models of versions that they know.
  int64_t opset = 17;
  // The function, if a folder or a program has several.
  std::string function = {};
  // The number of the graph, as saved::Function::explain() lists graphs. 0: the first graph for
  // many sizes, else the first graph.
  int64_t graph = 0;
  // The graphs of the training phase, in which dropout draws and layers use the batch.
  bool training = false;
  // Whether sizes that vary between calls stay open, as `dim_param`. Else the model has the sizes
  // of the first call.
  bool open_sizes = true;
  // A text for readers of the model.
  std::string doc = {};
  // If the weights have more bytes in all, they are in a second file in the folder of the model,
  // which must be moved with it. A model in one file has less than 2 GiB.
  int64_t external_bytes = int64_t{1} << 30;

  static constexpr void ranges(const auto& option) {
    option("opset", &SaveOptions::opset, within(kOldestOpset, kNewestOpset));
    option("graph", &SaveOptions::graph, at_least(0));
    option("external_bytes", &SaveOptions::external_bytes, within(0, int64_t{1} << 30));
  }
};

namespace internal {
// The name of a function as the name of an entry, which has no '/'.
std::string entry_name(const std::string& name);
}  // namespace internal

// Writes a function of these entries to `file`, which appears whole or not at all. Entries are as
// saved::save() takes them: a function with the objects that hold its Variables.
//
// throws: kUnimplemented for a call that ONNX has no form for, with the user's line, and for a
//   function that changes state or draws random numbers; kFailedPrecondition for a function
//   without a graph, or with state without a value; kInvalidArgument for an unknown function or
//   graph; errors of files as AtomicFile.
// cost: no copy of a weight, unless ONNX has its axes in another order.
void save(const std::filesystem::path& file, const std::vector<saved::Entry>& entries,
          const SaveOptions& options = {}, CallSite where = CallSite::here());
// The same for a staged function, a bound function, a loaded function or a loaded program.
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
