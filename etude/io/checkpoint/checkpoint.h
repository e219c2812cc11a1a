// SPDX-License-Identifier: Apache-2.0
// Checkpoints: one file with all state that a training run needs to resume with the same bits: the
// model, the state of the optimiser, the position in the data and the generator of this thread. The
// file appears whole or not at all.
#pragma once

#include <string>

#include "etude/io/safetensors.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

namespace internal {
// Adds the entries "position" and "generator" (of this thread), which are not part of the model.
void add_run(NamedTensors& all, int64_t epoch, int64_t step);
struct Run {
  int64_t epoch, step;
};
// Removes these entries and restores the generator. throws: kDataLoss if they are missing or
// invalid.
Run take_run(NamedTensors& all, std::string_view file);
// The order of samples and the length of the run; stored as metadata.
struct RunSettings {
  int64_t seed, batch, samples, shuffle, keep_remainder, ranks, epochs;
};
void add_settings(Metadata& metadata, const RunSettings& settings);
// Returns the stored number of epochs, 0 if there is none.
// throws: kInvalidArgument, naming both values, for data with other settings.
int64_t check_settings(const Metadata& metadata, const RunSettings& settings,
                       std::string_view file);
template <class Data>
RunSettings settings_of(const Data& data) {
  const auto& options = data.options();
  return {static_cast<int64_t>(options.seed),
          options.batch,
          data.samples(),
          options.shuffle,
          options.keep_remainder,
          options.ranks,
          data.plan().epochs};
}
// Removes and returns the entries below "prefix/", without the prefix.
NamedTensors take_below(NamedTensors& all, const std::string& prefix);
void add_below(NamedTensors& all, const std::string& prefix, const NamedTensors& part);
}  // namespace internal

// `metadata` is stored with the tensors. throws: as save_safetensors.
template <class Model, class Optimizer, class Data>
void save_checkpoint(const std::string& path, const Model& model, const Optimizer& optimizer,
                     const Data& data, Metadata metadata = {}, CallSite where = CallSite::here()) {
  NamedTensors all;
  internal::add_below(all, "model", named_tensors(model));
  internal::add_below(all, "optimizer", optimizer.state());
  internal::add_run(all, data.position().epoch, data.position().step);
  metadata["etude.checkpoint"] = "1";
  if constexpr (requires { data.plan(); }) {
    internal::add_settings(metadata, internal::settings_of(data));
  }
  save_safetensors(path, all, metadata, where);
}

// Restores all state. Make the model, the options of the optimiser and the data as for the saved
// run; fit compares the number of epochs.
//
// throws: kNotFound, kDataLoss with the file's name; kInvalidArgument, with the paths, for another
//         model, and, with both values, for data with another seed, batch, order or number of
//         samples.
template <class Model, class Optimizer, class Data>
void load_checkpoint(const std::string& path, Model& model, Optimizer& optimizer, Data& data,
                     CallSite where = CallSite::here()) {
  etude::internal::located("", where, [&] {
    auto [all, metadata] = load_safetensors(path);
    int64_t epochs = 0;
    if constexpr (requires { data.plan(); }) {
      epochs = internal::check_settings(metadata, internal::settings_of(data), path);
    }
    assign_tensors(model, internal::take_below(all, "model"), {}, path);
    optimizer.restore(internal::take_below(all, "optimizer"));
    const internal::Run run = internal::take_run(all, path);
    data.seek({run.epoch, run.step});
    if constexpr (requires { data.plan(); }) data.set_plan({.epochs = epochs, .checkpoint = path});
  });
}

}  // namespace io
}  // namespace etude
