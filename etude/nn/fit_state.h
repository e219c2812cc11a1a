// SPDX-License-Identifier: Apache-2.0
// What a training run is asked for and what it tells: options, events, state, history. Used by
// callbacks; the run itself is fit.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "etude/core/option_ranges.h"
#include "etude/nn/metric.h"
#include "etude/nn/metrics.h"
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
  kUpdateStart,   // gradients are there
  kInferenceEnd,  // predictions are there
};

// What a callback may call off: the rest of the batch, of the training or validation part of an
// epoch, of the epoch, or of everything.
enum class Cancel : uint8_t { kNothing, kBatch, kPart, kEpoch, kFit };

// Results of metrics by name.
using Numbers = std::map<std::string, double>;

struct EpochRecord {
  std::int64_t epoch = 0;
  double loss = 0, accuracy = 0;  // means over the training batches of this run
  double validation_loss = 0, validation_accuracy = 0;
  bool has_validation = false;
  double seconds = 0;
  Numbers metrics = {};             // of FitOptions::metrics, over training batches
  Numbers validation_metrics = {};  // what the validation gave
};
// A number of an epoch by the name that logs have for it: "loss", "accuracy", "seconds", a metric,
// or any of the first two and metrics with "validation_" in front.
// throws: kInvalidArgument, with the names that there are, for another one.
double number_of(const EpochRecord& epoch, const std::string& name);
// All of them, in that order.
std::vector<std::pair<std::string, double>> numbers_of(const EpochRecord& epoch);

struct History {
  std::vector<EpochRecord> epochs;
  std::vector<float> batch_losses;
  std::vector<float> gradient_norms;  // by batch, if FitOptions asks for them
  std::int64_t skipped_batches = 0;   // those whose loss was no finite number
  bool was_cancelled = false;
  std::string why = {};  // it was, in words, if fit or a callback of the library did it
};

// Where a run stands; what callbacks see. They change `cancel` and `history.why` only.
struct FitState {
  std::int64_t epoch = 0, epochs = 0;  // from 0
  std::int64_t step = 0, steps = 0;    // batches done in this epoch, and those it has
  std::int64_t batch_size = 0;
  bool is_validating = false;
  double batch_loss = 0;
  double gradient_norm = 0;  // of this batch, if FitOptions asks for it
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

// How the steps of a training run are run. All give the same bits.
//   kEager   call by call.
//   kStaged  forward, loss, gradient and update as one staged function (runtime/function.h) with
//            model and optimiser as in-out arguments. Callbacks see the same events with the same
//            states. kInferenceEnd and kUpdateStart come when the graph has run, but before model
//            and optimiser take what it gave, so that a callback which calls the batch off there
//            leaves both as they were. For that, a run with callbacks holds what is old and what
//            is new at once; one without them does not.
//   kLazy    recorded and run together (runtime/lazy.h), each step by itself, with the events of
//            kEager. Without callbacks a step is one segment; with them the loss is looked at
//            before the update. A step that fails while it runs, not while it is recorded, takes
//            with it the parameters that hang on what failed.
enum class Mode : uint8_t { kEager, kStaged, kLazy };

// What a loss that is NaN or infinite does. All but kGoOn look at the loss before the update, as
// callbacks do.
//   kGoOn         nothing: the update is done.
//   kStop         the run ends before the update; History::why tells epoch and step.
//   kSkip         the update is left out, and the batch counts in no mean.
//   kRestoreBest  the same, and model and optimiser become those after the epoch with the lowest
//                 loss (of the validation, if there is one), at first those of the start.
enum class NonFinite : uint8_t { kGoOn, kStop, kSkip, kRestoreBest };

struct FitOptions {
  std::int64_t epochs = 1;
  Mode mode = Mode::kEager;
  // Go on from a checkpoint of a run of another number of epochs: schedules that were made for that
  // number must know of it.
  bool prolong = false;
  // Called after each epoch, in the inference phase; see validate().
  std::function<Evaluation()> validation = {};
  std::vector<Callback> callbacks = {};
  // Of the predictions while training. With any, the accuracy of classes is not computed by itself.
  Metrics metrics = {};
  NonFinite on_non_finite = NonFinite::kGoOn;
  bool gradient_norms = false;  // FitState::gradient_norm, History::gradient_norms

  static constexpr void ranges(const auto& row) { row("epochs", &FitOptions::epochs, at_least(0)); }
};

}  // namespace nn
}  // namespace etude
