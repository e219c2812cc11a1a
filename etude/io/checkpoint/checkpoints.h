// SPDX-License-Identifier: Apache-2.0
// Checkpoints during training: a callback for nn::fit that saves the run regularly into a folder,
// keeps the newest checkpoints and a checkpoint of the best epoch, and saves once more at the end,
// also after a stop. To save once by hand: checkpoint.h.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "etude/core/option_ranges.h"
#include "etude/io/checkpoint/checkpoint.h"
#include "etude/nn/fit/fit.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

// The number that ranks the epochs.
enum class Best : uint8_t { kNone, kLoss, kValidationLoss, kValidationAccuracy };

struct CheckpointOptions {
  int64_t every_steps = 0;   // batches between two checkpoints; 0: not by batches
  int64_t every_epochs = 1;  // epochs between two checkpoints; 0: not by epochs
  int64_t keep = 1;          // number of newest checkpoints to keep; 0: all
  Best best = Best::kNone;   // of equally good epochs the first is kept

  static constexpr void ranges(const auto& option) {
    option("every_steps", &CheckpointOptions::every_steps, at_least(0));
    option("every_epochs", &CheckpointOptions::every_epochs, at_least(0));
    option("keep", &CheckpointOptions::keep, at_least(0));
  }
};

namespace internal {
// The part that does not depend on the model.
struct CheckpointRun {
  std::function<void(const std::string&, const Metadata&)> save;
  std::function<int64_t()> updates;
  std::function<Metadata()> settings;  // of the data
};
nn::Callback checkpoint_callback(const std::string& folder, const CheckpointOptions& options,
                                 CheckpointRun run);
}  // namespace internal

// Checkpoints are FOLDER/step-00000469, numbered by updates of the optimiser, and FOLDER/best, each
// as save_checkpoint writes it. Each appears whole or not at all, and an older one is removed only
// after its successor is in place, so there is a valid one at any time. Files of earlier releases,
// step-00000469.safetensors, count as well. So does the best score of an earlier run in the same
// folder. FOLDER/run-00000000.json records the settings on which a run depends besides its program:
// seeds, versions, flags. The number in its name is the update at which the run began.
//
// A folder belongs to one run at a time: from its start to its end fit has a lock of the folder,
// also against other processes. A run that was killed leaves no lock, and its unfinished checkpoint
// is removed by the next run.
//
//   nn::fit(model, optimizer, data, loss,
//           {.epochs = 10, .validation = validate,
//            .callbacks = {io::checkpoints("runs/7", model, optimizer, data,
//                                          {.keep = 3, .best = io::Best::kValidationAccuracy})}});
//
// Model, optimiser and data are borrowed; pass the same objects to fit.
//
// throws: kInvalidArgument for negative numbers; during training: as save_checkpoint, and
//         kFailedPrecondition if the folder has a checkpoint of a later update than the optimiser
//         is at, if another run saves into it, with process and machine, and if `best` needs a
//         validation that fit does not have.
template <class Model, class Optimizer, class Data>
nn::Callback checkpoints(const std::string& folder, const Model& model, const Optimizer& optimizer,
                         const Data& data, const CheckpointOptions& options = {},
                         CallSite where = CallSite::here()) {
  etude::internal::check_options("checkpoints", options, where);
  return internal::checkpoint_callback(
      folder, options,
      {.save =
           [&model, &optimizer, &data](const std::string& path, const Metadata& metadata) {
             save_checkpoint(path, model, optimizer, data, metadata);
           },
       .updates = [&optimizer] { return optimizer.updates(); },
       .settings =
           [&data] {
             Metadata out;
             if constexpr (requires { data.plan(); }) {
               internal::add_settings(out, internal::settings_of(data));
             }
             return out;
           }});
}

// The newest complete checkpoint of `checkpoints` in a folder, for load_checkpoint; none if there
// is none, or no folder.
std::optional<std::string> newest_checkpoint(const std::string& folder);

}  // namespace io
}  // namespace etude
