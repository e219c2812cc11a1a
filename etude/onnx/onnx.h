// SPDX-License-Identifier: Apache-2.0
// ONNX: writes a function as a model that other programs run, such as onnxruntime, and reads models
// of other programs as functions.
//
//   onnx::save("lenet.onnx", saved::bind(predict, model));
//   onnx::save("lenet.onnx", saved::load("lenet").function("predict"));
//
// The model holds one graph of the function and the values of its state. Call the function before
// the export, or give it a signature. Calls with two batch sizes make one model for all sizes.
// Inputs and results have the same names as in a saved function. Weights have their paths as names,
// such as "model/fc1/weight". docs/saved_functions.md shows more.
//
//   const saved::Program program = onnx::load("resnet.onnx");
//   const auto predict = program.function("predict").as<Tensor(const Tensor&)>();
//   saved::save("resnet", program);
//
// A loaded model is a program with one function, such as saved::load() returns. It can be called,
// trained further, staged, saved and compiled. docs/onnx/use_a_model.md shows more.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
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
  save(file, std::vector{saved::Entry(saved::internal::entry_name(f.name()), f)}, options, where);
}
void save(const std::filesystem::path& file, const saved::Bound& f, const SaveOptions& options = {},
          CallSite where = CallSite::here());
void save(const std::filesystem::path& file, const saved::Function& f,
          const SaveOptions& options = {}, CallSite where = CallSite::here());
void save(const std::filesystem::path& file, const saved::Program& program,
          const SaveOptions& options = {}, CallSite where = CallSite::here());

struct LoadOptions {
  // The versions of ONNX's ops that a model may use.
  static constexpr int64_t kOldestOpset = 1, kNewestOpset = 27;

  // The name of the function in the program.
  std::string function = "predict";
  // Sizes that are open in the model, and that the function fixes: {{"batch", 8}}. Other open sizes
  // stay open. Sizes without a name are called by input and axis: "image.0".
  std::map<std::string, int64_t> sizes = {};
  // Shapes of inputs, in place of the shapes in the model; kAny stays open.
  std::map<std::string, Shape> shapes = {};
  // Inputs with fixed values, which are no arguments of the function. An input that determines the
  // size of another value, such as the new shape of Reshape, needs a fixed value. A value is
  // converted to the dtype of its input; only floats may round.
  io::NamedTensors constants = {};
  // Whether the weights are trainable Variables.
  bool trainable = true;
  // As saved::LoadOptions::max_loop_steps: for models from strangers.
  int64_t max_loop_steps = 0;

  static constexpr void ranges(const auto& option) {
    option("max_loop_steps", &LoadOptions::max_loop_steps, at_least(0));
  }
};

// Reads a model. Its function has the inputs of the model as parameters, and returns its output, or
// fields with the names of its outputs. Initialisers of floats with axes are Variables with their
// names; other initialisers are constants. A size with a name (`dim_param`) stays open. Models are
// not trusted: external data is read from the folder of the file only, and memory is limited by
// read_limits().
//
// throws: kNotFound if there is no file; kDataLoss, with the offset, for bytes that are no model;
//   kUnimplemented, naming the node, for an operator, an attribute, a dtype or an opset that is not
//   imported; kFailedPrecondition, naming input and node, for a value or a size that has to be
//   known; kInvalidArgument, naming the node, for a model that is wrong, and for an option that
//   does not fit the model; kResourceExhausted beyond read_limits() or `max_loop_steps`.
saved::Program load(const std::filesystem::path& file, const LoadOptions& options = {},
                    CallSite where = CallSite::here());

}  // namespace onnx
}  // namespace etude
