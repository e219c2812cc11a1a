// SPDX-License-Identifier: Apache-2.0
// Logs for TensorBoard: scalars, histograms, images, texts and graphs, as an event file or as a
// callback.
// The format is TensorFlow's: records with a masked CRC-32C around protocol buffer messages. There
// are so few kinds of messages that this code encodes them itself.
//
//   nn::fit(model, optimizer, data, loss,
//           {.epochs = 10, .callbacks = {nn::tensorboard("runs/7", model)}});
//   $ pip install tensorboard && tensorboard --logdir runs
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/base/structure.h"
#include "etude/core/option_ranges.h"
#include "etude/core/tensor.h"
#include "etude/graph/graph.h"
#include "etude/nn/fit/fit_state.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

// Names of a graph in EventFile::graph(). Without a list, inputs have the names in the graph,
// inputs with a '/' in their name are state, and outputs are "output", "output_1", ...
struct GraphNames {
  std::vector<std::string> inputs = {};   // by input: "model/fc1/weight"
  std::vector<bool> is_state = {};        // by input
  std::vector<std::string> outputs = {};  // by output: "scores"
};

// An event file in a folder, which is created if it is missing. Entries are in the file after
// flush(), and after destruction. threads: thread-compatible.
class EventFile {
 public:
  // throws: kFailedPrecondition, with the path, if it cannot be made.
  explicit EventFile(const std::string& folder, CallSite where = CallSite::here());

  // throws (all): kFailedPrecondition, with the path, if the file cannot be written.
  void scalar(std::string_view tag, double value, int64_t step);
  // The histogram of all finite elements.
  void histogram(std::string_view tag, const Tensor& values, int64_t step);
  // An image, [height, width] or [height, width, channels] with 1 to 4 channels: uint8, or floats
  // from 0 (black) to 1 (full); other values are clamped. throws: kInvalidArgument for another
  // shape.
  void image(std::string_view tag, const Tensor& image, int64_t step,
             CallSite where = CallSite::here());
  void text(std::string_view tag, std::string_view text, int64_t step);
  // The graph of a function, for the page "Graphs", which shows one graph for each folder. Calls of
  // one layer are in the scope of the layer, such as "model/fc1": the common path of the state that
  // the calls read. Nodes have sizes, attributes and the user's lines. Bodies of loops and branches
  // are scopes. throws: kInvalidArgument for lists of another length than the graph has.
  void graph(const Graph& graph, const GraphNames& names = {}, CallSite where = CallSite::here());
  void flush();
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void add(int64_t step, std::string_view summary);
  void record(std::string_view event);
  void require(bool is_done) const;

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

struct TensorboardOptions {
  int64_t every_steps = 10;  // batches between two losses; 0: only losses of epochs
  bool histograms = true;    // of the tensors of the model after each epoch

  static constexpr void ranges(const auto& option) {
    option("every_steps", &TensorboardOptions::every_steps, at_least(0));
  }
};

namespace internal {
using AddHistograms = std::function<void(EventFile&, int64_t)>;
Callback event_callback(std::string folder, const TensorboardOptions& options,
                        AddHistograms histograms, CallSite where);
}  // namespace internal

// Logs "batch/loss" (and "batch/gradient_norm"), and all numbers_of() an epoch as "epoch/loss" and
// so on. The steps of the log are the numbers of batches and epochs of this run, from 1.
// throws: kInvalidArgument for options out of their range; while training, as EventFile.
Callback tensorboard(std::string folder, const TensorboardOptions& options = {},
                     CallSite where = CallSite::here());
// The same, with histograms of the tensors under their paths, "model/conv1/filter". The model is
// borrowed.
template <class Model>
Callback tensorboard(std::string folder, const Model& model, const TensorboardOptions& options = {},
                     CallSite where = CallSite::here()) {
  internal::AddHistograms histograms = [&model](EventFile& file, int64_t step) {
    for_each_leaf<Tensor>(model, [&](const std::string& path, const Tensor& x) {
      if (x.has_value()) file.histogram("model/" + path, x, step);
    });
  };
  return internal::event_callback(std::move(folder), options,
                                  options.histograms ? std::move(histograms) : nullptr, where);
}

}  // namespace nn
}  // namespace etude
