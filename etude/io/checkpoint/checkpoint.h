// SPDX-License-Identifier: Apache-2.0
// Checkpoints: all state that a training run needs to resume bit for bit: the model, the
// optimiser's state, the position in the data and the generator of this thread. They have the
// format of io::Checkpoint (object_checkpoint.h), a folder with checksums that appears whole or not
// at all; io::Checkpoint{{"model", model}, {"optimizer", optimizer}, {"data", data}} restores these
// parts. Files of earlier releases, one safetensors file each, are read as well.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/io/internal/trackee.h"
#include "etude/io/safetensors.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

namespace internal {
struct Run {
  int64_t epoch, step;
};
// Removes the entries outside of the model and the optimiser, "position" and "generator", and
// prepares the restore of the generator of this thread. throws: kDataLoss if they are missing or
// invalid.
Run take_run(NamedTensors& all, std::string_view file, std::vector<PreparedRestore>& parts);
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
// Prepares the restore of a model, an optimiser, the position of data, and their plan. throws:
// their errors.
template <class Model>
PreparedRestore prepare_model(Model& model, NamedTensors tensors, std::string_view file) {
  std::vector<Place> places;
  for_each_leaf<Tensor, Marked::kVisit>(
      model, [&](const std::string& path, Tensor& x) { add_place(places, path, x); });
  return {.exchange = prepare_places(places, std::move(tensors), file)};
}
template <class Optimizer>
PreparedRestore prepare_optimizer(Optimizer& optimizer, NamedTensors state) {
  PreparedRestore out = prepare_hooks(state_hooks(optimizer), std::move(state));
  out.path = "optimizer";
  return out;
}
template <class Data>
PreparedRestore prepare_data(Data& data, Run run) {
  using Position = std::remove_cvref_t<decltype(data.position())>;
  PreparedRestore out = prepare_seek(data, Position{run.epoch, run.step});
  out.path = "data";
  return out;
}
template <class Data>
PreparedRestore prepare_plan(Data& data, int64_t epochs, const std::string& file) {
  auto former = data.plan();
  decltype(former) next{.epochs = epochs, .checkpoint = file};
  return {.exchange = [&data, former, next, is_done = false]() mutable {
    data.set_plan(std::move(is_done ? former : next));
    is_done = true;
  }};
}
// Writes a checkpoint of these parts, the generator of this thread and the metadata. A file at
// `path`, as earlier releases wrote, is replaced by the folder.
// throws: kNotFound when the folder of `path` is missing; else as Checkpoint::write.
void save_run(const std::string& path, std::vector<Edge> parts, const Metadata& metadata);
// The tensors of a checkpoint by path, "model/conv1/filter", and its metadata.
// throws: as load_safetensors.
SafetensorsFile load_run(const std::string& path);
// Its metadata alone.
Metadata load_run_metadata(const std::string& path);

// The tensors of a model, for saving, which does not change them.
template <class Model>
TrackeePtr track_model(const Model& model) {
  return track_parts(&model, [&model] {
    std::vector<Part> parts;
    for_each_leaf<Tensor, Marked::kVisit>(model, [&](const std::string& path, const Tensor& x) {
      if (x.has_value()) add_part(parts, path, track_tensor(const_cast<Tensor&>(x)));
    });
    return parts;
  });
}
}  // namespace internal

// Writes a checkpoint to the folder `path`; `metadata` is stored with it. Other savers into the
// same folder wait.
//
// throws: kNotFound when the folder of `path` is missing; else as Checkpoint::write.
template <class Model, class Optimizer, class Data>
void save_checkpoint(const std::string& path, const Model& model, const Optimizer& optimizer,
                     const Data& data, Metadata metadata = {}, CallSite where = CallSite::here()) {
  etude::internal::located("save_checkpoint", where, [&] {
    const auto position = [&data] {
      return internal::position_values({data.position().epoch, data.position().step},
                                       internal::pipeline_of(data));
    };
    metadata["etude.checkpoint"] = "1";
    if constexpr (requires { data.plan(); }) {
      internal::add_settings(metadata, internal::settings_of(data));
    }
    internal::save_run(
        path,
        {{"model", internal::track_model(model)},
         {"optimizer",
          internal::track_hooks({&optimizer, ""},
                                {.save = [&] { return NamedTensors(optimizer.state()); }})},
         {"data", internal::track_hooks({&data, ""}, {.save = position})}},
        metadata);
  });
}

// Restores all state. Make the model, the options of the optimiser and the data as for the saved
// run; fit compares the number of epochs.
//
// throws: kNotFound; kDataLoss, with the file's name, also for a single changed bit, and with the
//         advice to take an older one; kInvalidArgument, with the paths, for another model, and,
//         with both values, for data of another seed, batch, order or number of samples. Nothing is
//         restored then.
template <class Model, class Optimizer, class Data>
void load_checkpoint(const std::string& path, Model& model, Optimizer& optimizer, Data& data,
                     CallSite where = CallSite::here()) {
  etude::internal::located("", where, [&] {
    auto [all, metadata] = internal::load_run(path);
    int64_t epochs = 0;
    if constexpr (requires { data.plan(); }) {
      epochs = internal::check_settings(metadata, internal::settings_of(data), path);
    }
    std::vector<internal::PreparedRestore> parts;
    parts.push_back(internal::prepare_model(model, internal::take_below(all, "model"), path));
    parts.push_back(internal::prepare_optimizer(optimizer, internal::take_below(all, "optimizer")));
    parts.push_back(internal::prepare_data(data, internal::take_run(all, path, parts)));
    if constexpr (requires { data.plan(); }) {
      parts.push_back(internal::prepare_plan(data, epochs, path));
    }
    internal::restore_all(std::move(parts), path);
  });
}

}  // namespace io
}  // namespace etude
