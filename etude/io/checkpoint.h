// SPDX-License-Identifier: Apache-2.0
// Checkpoints: everything a training run needs to go on bit for bit, in one file that appears whole
// or not at all: the model, the optimiser's state, the position in the data and the generator of
// this thread.
#pragma once

#include <string>

#include "etude/io/safetensors.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

namespace internal {
// Entries that belong to no model: "position" and "generator". The generator is that of this
// thread.
void add_run(NamedTensors& all, std::int64_t epoch, std::int64_t step);
struct Run {
  std::int64_t epoch, step;
};
// Takes them out and restores the generator. throws: kDataLoss if they are missing or unfit.
Run take_run(NamedTensors& all, std::string_view file);
// Moves the entries below "prefix/" out, without the prefix.
NamedTensors take_below(NamedTensors& all, const std::string& prefix);
void add_below(NamedTensors& all, const std::string& prefix, const NamedTensors& part);
}  // namespace internal

// `metadata` is kept beside the tensors. throws: as save_safetensors.
template <class Model, class Optimizer, class Data>
void save_checkpoint(const std::string& path, const Model& model, const Optimizer& optimizer,
                     const Data& data, Metadata metadata = {}) {
  NamedTensors all;
  internal::add_below(all, "model", named_tensors(model));
  internal::add_below(all, "optimizer", optimizer.state());
  internal::add_run(all, data.position().epoch, data.position().step);
  metadata["etude.checkpoint"] = "1";
  save_safetensors(path, all, metadata);
}

// Restores all of it. The model, the optimiser's options and the data must be made as for the run
// that was saved.
//
// throws: kNotFound, kDataLoss with the file's name; kInvalidArgument with paths for another model.
template <class Model, class Optimizer, class Data>
void load_checkpoint(const std::string& path, Model& model, Optimizer& optimizer, Data& data) {
  NamedTensors all = load_safetensors(path).tensors;
  assign_tensors(model, internal::take_below(all, "model"), {}, path);
  optimizer.restore(internal::take_below(all, "optimizer"));
  const internal::Run run = internal::take_run(all, path);
  data.seek({run.epoch, run.step});
}

}  // namespace io
}  // namespace etude
