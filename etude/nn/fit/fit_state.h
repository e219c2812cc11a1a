// SPDX-License-Identifier: Apache-2.0
// The options, events, state and history of a training run. Used by callbacks; fit.h has the run
// itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "etude/core/option_ranges.h"
#include "etude/nn/metrics/metric.h"
#include "etude/nn/metrics/metrics.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

enum class Event : uint8_t {
  kFitStart,
  kFitEnd,
  kEpochStart,
  kEpochEnd,
  kTrainingStart,
  kTrainingEnd,
  kValidationStart,
  kValidationEnd,
  kBatchStart,
  kBatchEnd,
  kUpdateStart,   // gradients are computed
  kInferenceEnd,  // predictions are computed
};

// The part of a run that a callback may cancel: the rest of the batch, of the training or
// validation part of an epoch, of the epoch, or of the run.
enum class Cancel : uint8_t { kNothing, kBatch, kPart, kEpoch, kFit };

// Results of metrics by name.
using Numbers = std::map<std::string, double>;

struct EpochRecord {
  int64_t epoch = 0;
  double loss = 0, accuracy = 0;  // means over the training batches of this run
  double validation_loss = 0, validation_accuracy = 0;
  bool has_validation = false;
  double seconds = 0;
  Numbers metrics = {};             // of FitOptions::metrics, over training batches
  Numbers validation_metrics = {};  // results of the validation
};
// Returns a result of an epoch by its name in logs: "loss", "accuracy", "seconds", a metric, or
// "validation_" followed by "loss", "accuracy" or a metric.
// throws: kInvalidArgument, with the known names, for another name.
double number_of(const EpochRecord& epoch, const std::string& name);
// Returns all results of an epoch, in that order.
std::vector<std::pair<std::string, double>> numbers_of(const EpochRecord& epoch);

struct History {
  std::vector<EpochRecord> epochs;
  std::vector<float> batch_losses;
  std::vector<float> gradient_norms;  // by batch, if FitOptions requests them
  int64_t skipped_batches = 0;        // whose loss is not finite
  bool was_cancelled = false;
  std::string why = {};  // reason of the stop, set by fit or a callback of the library
};

// The state of a run as callbacks see it. They may change only `cancel` and `history.why`.
struct FitState {
  int64_t epoch = 0, epochs = 0;  // from 0
  int64_t step = 0, steps = 0;    // batches done in this epoch, and its batches
  int64_t batch_size = 0;
  bool is_validating = false;
  double batch_loss = 0;
  double gradient_norm = 0;  // of this batch, if FitOptions requests it
  Mean loss, accuracy;       // of this part of the epoch so far
  Metrics metrics = {};
  History history;
  Cancel cancel = Cancel::kNothing;
};
using Callback = std::function<void(Event, FitState&)>;

struct Evaluation {
  double loss = 0;
  double accuracy = 0;
  Confusion confusion;
  Numbers metrics = {};
};

// The execution mode of the steps of a training run. All modes compute the same bits.
//   kEager   call by call.
//   kStaged  forward, loss, gradient and update as one staged function (stage/function.h) with
//            model and optimiser as in-out arguments. Callbacks see the same events with the same
//            states. kInferenceEnd and kUpdateStart come after the graph has run and before model
//            and optimiser take its results, so that a callback which cancels the batch there
//            leaves both unchanged. For that, a run with callbacks holds old and new values at
//            once; a run without callbacks does not.
//   kLazy    recorded and run together (lazy/lazy.h), step by step, with the events of kEager.
//            Without callbacks a step is one segment; with callbacks the loss is observed before
//            the update. If a step fails while it runs, rather than while it is recorded, the
//            parameters that depend on the failed call are lost.
enum class Mode : uint8_t { kEager, kStaged, kLazy };

// The reaction to a loss that is NaN or infinite. All but kGoOn observe the loss before the update,
// as callbacks do.
//   kGoOn         none: the update is done.
//   kStop         the run ends before the update; History::why states epoch and step.
//   kSkip         the update is skipped, and the batch counts in no mean.
//   kRestoreBest  kSkip, and model and optimiser get their state after the epoch with the lowest
//                 loss (of the validation, if there is one); before the first epoch has ended,
//                 their state at the start.
enum class NonFinite : uint8_t { kGoOn, kStop, kSkip, kRestoreBest };

struct FitOptions {
  int64_t epochs = 1;
  Mode mode = Mode::kEager;
  // Whether to continue from a checkpoint of a run with another number of epochs. Make new
  // schedules if they depend on the number of epochs.
  bool prolong = false;
  // Called after each epoch, in the inference phase; see validate().
  std::function<Evaluation()> validation = {};
  std::vector<Callback> callbacks = {};
  // Metrics of the predictions during training. If there are any, the accuracy of classes is not
  // computed automatically.
  Metrics metrics = {};
  NonFinite on_non_finite = NonFinite::kGoOn;
  bool gradient_norms = false;  // FitState::gradient_norm, History::gradient_norms

  static constexpr void ranges(const auto& row) { row("epochs", &FitOptions::epochs, at_least(0)); }
};

}  // namespace nn
}  // namespace etude
