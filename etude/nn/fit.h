// SPDX-License-Identifier: Apache-2.0
// fit: the training loop with events for callbacks, and evaluate. The loop by hand is as short and
// gives the same numbers:
//
//   while (data.position().epoch < 10) {
//     const auto batch = data.next();
//     const PhaseScope training(Phase::kTraining);
//     auto [loss, grads] = value_with_gradient(
//         [&](const Net& m) { return nn::softmax_cross_entropy(m(batch.inputs), batch.labels); },
//         model);
//     optimizer.update(model, grads);
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "etude/core/ambient.h"
#include "etude/core/arg.h"
#include "etude/core/call_scope.h"
#include "etude/core/option_ranges.h"
#include "etude/core/tensor.h"
#include "etude/nn/metrics.h"
#include "etude/nn/parts.h"
#include "etude/runtime/function.h"
#include "etude/runtime/gradient.h"
#include "etude/runtime/lazy.h"
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

struct EpochRecord {
  std::int64_t epoch = 0;
  double loss = 0, accuracy = 0;  // means over the training batches of this run
  double validation_loss = 0, validation_accuracy = 0;
  bool has_validation = false;
  double seconds = 0;
};

struct History {
  std::vector<EpochRecord> epochs;
  std::vector<float> batch_losses;
  bool was_cancelled = false;
};

// Where a run stands; what callbacks see. They change `cancel` only.
struct FitState {
  std::int64_t epoch = 0, epochs = 0;  // from 0
  std::int64_t step = 0, steps = 0;    // batches done in this epoch, and those it has
  std::int64_t batch_size = 0;
  bool is_validating = false;
  double batch_loss = 0;
  Mean loss, accuracy;  // of this part of the epoch so far
  History history;
  Cancel cancel = Cancel::kNothing;
};
using Callback = std::function<void(Event, FitState&)>;

struct Evaluation {
  double loss = 0;
  double accuracy = 0;
  Confusion confusion;
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

struct FitOptions {
  std::int64_t epochs = 1;
  Mode mode = Mode::kEager;
  // Go on from a checkpoint of a run of another number of epochs: schedules that were made for that
  // number must know of it.
  bool prolong = false;
  // Called after each epoch, in the inference phase; see validate().
  std::function<Evaluation()> validation = {};
  std::vector<Callback> callbacks = {};

  static constexpr void ranges(const auto& row) { row("epochs", &FitOptions::epochs, at_least(0)); }
};

namespace detail {

// The parts of fit that know no model: events, history, time.
class FitRun {
 public:
  FitRun(const FitOptions& options, std::int64_t steps);
  FitRun(const FitRun&) = delete;
  FitRun& operator=(const FitRun&) = delete;
  ~FitRun();
  FitState& state() { return state_; }
  // Tells the callbacks. False if one of them called off `scope` or something larger.
  bool emit(Event event, Cancel scope);
  bool is_cancelled(Cancel scope) const { return state_.cancel >= scope; }
  void start_epoch(std::int64_t epoch, std::int64_t step);
  void end_epoch();
  // False if the training part ends here.
  bool end_batch();
  // Notes what a batch gave, and tells that inference has ended and that the update starts. False
  // if a callback calls the update off.
  bool may_update(const Tensor& predicted, const Tensor& labels, const Tensor& loss);

 private:
  const FitOptions& options_;
  FitState state_;
  double started_ = 0;
};

// throws: kInvalidArgument, naming both, if a checkpoint was made in a run of another number of
//         epochs, unless the options prolong it.
void require_same_epochs(const FitOptions& options, std::int64_t epochs,
                         const std::string& checkpoint, CallSite where);

bool has_classes(const Tensor& predicted, const Tensor& labels);

// A loss is any callable, or an op with options, such as nn::softmax_cross_entropy.
template <class Loss>
Tensor call_loss(const Loss& loss, const Tensor& predicted, const Tensor& labels) {
  return loss(predicted, labels);
}
template <class Options>
Tensor call_loss(Tensor (&loss)(const Arg&, const Arg&, const Options&), const Tensor& predicted,
                 const Tensor& labels) {
  return loss(predicted, labels, Options{});
}

// Predictions and loss of a batch, and the gradients of the model.
template <class Model, class Loss>
auto infer(const Model& model, const Tensor& inputs, const Tensor& labels, const Loss& loss,
           CallSite where) {
  Tensor predicted;
  auto [value, gradients] = value_with_gradient({[&](const Model& m) {
                                                   predicted = call_model(m, inputs, where);
                                                   return call_loss(loss, predicted, labels);
                                                 },
                                                 where},
                                                model);
  return std::tuple(std::move(predicted), std::move(value), std::move(gradients));
}

// The step of a training run in either mode.
template <class Model, class Optimizer, class Loss>
class TrainingStep {
 public:
  TrainingStep(const FitOptions& options, const Loss& loss, CallSite where)
      : has_callbacks_(!options.callbacks.empty()),
        is_lazy_(options.mode == Mode::kLazy),
        loss_(loss),
        where_(where) {
    if (options.mode != Mode::kStaged) return;
    staged_.emplace(
        [&loss, where](Model& model, Optimizer& optimizer, const Tensor& inputs,
                       const Tensor& labels) {
          auto [predicted, value, gradients] = infer(model, inputs, labels, loss, where);
          optimizer.update(model, gradients, where);
          return std::pair(std::move(predicted), std::move(value));
        },
        FunctionOptions{.name = "fit", .arg_names = {"model", "optimizer", "inputs", "labels"}},
        where);
  }

  // One batch; false if training ends here.
  template <class Batch>
  bool operator()(FitRun& run, Model& model, Optimizer& optimizer, const Batch& batch) const {
    run.state().batch_size = batch.inputs.shape()[0];
    if (run.emit(Event::kBatchStart, Cancel::kBatch)) {
      const PhaseScope training(Phase::kTraining);
      if (is_lazy_) {
        run_lazy(run, model, optimizer, batch);
      } else if (staged_) {
        run_staged(run, model, optimizer, batch);
      } else {
        run_eager(run, model, optimizer, batch);
      }
    }
    return run.end_batch();
  }

 private:
  template <class Batch>
  void run_eager(FitRun& run, Model& model, Optimizer& optimizer, const Batch& batch) const {
    const auto [predicted, value, gradients] =
        infer(model, batch.inputs, batch.labels, loss_, where_);
    if (run.may_update(predicted, batch.labels, value)) optimizer.update(model, gradients, where_);
  }

  template <class Batch>
  void run_lazy(FitRun& run, Model& model, Optimizer& optimizer, const Batch& batch) const {
    Tensor predicted, value;
    {
      const LazyScope lazy;
      if (has_callbacks_) {
        run_eager(run, model, optimizer, batch);
      } else {
        // Gradients go before the barrier: what nobody holds need not be kept.
        auto [y, loss, gradients] = infer(model, batch.inputs, batch.labels, loss_, where_);
        optimizer.update(model, gradients, where_);
        predicted = std::move(y);
        value = std::move(loss);
      }
      lazy_barrier({}, where_);
    }
    if (has_callbacks_) return;
    run.may_update(predicted, batch.labels, value);
  }

  template <class Batch>
  void run_staged(FitRun& run, Model& model, Optimizer& optimizer, const Batch& batch) const {
    const auto step = [&](Model& m, Optimizer& o) {
      const auto [predicted, value] = (*staged_)(m, o, batch.inputs, batch.labels, where_);
      return run.may_update(predicted, batch.labels, value);
    };
    if (!has_callbacks_) {
      step(model, optimizer);
      return;
    }
    Model next_model = model;
    Optimizer next_optimizer = optimizer;
    if (!step(next_model, next_optimizer)) return;
    model = std::move(next_model);
    optimizer = std::move(next_optimizer);
  }

  bool has_callbacks_;
  bool is_lazy_;
  const Loss& loss_;
  CallSite where_;
  std::optional<
      Function<std::pair<Tensor, Tensor>(Model&, Optimizer&, const Tensor&, const Tensor&)>>
      staged_;
};

}  // namespace detail

// Trains `model` until `data` has reached the end of epoch options.epochs - 1, from where it
// stands.
//
// Data is data::Epochs or anything with next(), position(), steps_per_epoch(); a batch has `inputs`
// and `labels`. loss(predicted, labels) gives a scalar: fit(model, opt, data,
// nn::softmax_cross_entropy, {.epochs = 10}). After a callback has called off the run, everything
// is as after the last finished batch: saved then, it can be resumed bit for bit.
//
// throws: kInvalidArgument for data that comes from a checkpoint of a run of another number of
// epochs;
//         what model, loss, optimiser, data and callbacks throw; errors of layers name their path
//         in the model.
template <class Model, class Optimizer, class Data, class Loss>
History fit(Model& model, Optimizer& optimizer, Data& data, const Loss& loss,
            const FitOptions& options = {}, CallSite where = CallSite::here()) {
  const CallScope scope(where);
  etude::internal::check_options("fit", options, where);
  if constexpr (requires { data.plan(); }) {
    detail::require_same_epochs(options, data.plan().epochs, data.plan().checkpoint, where);
    data.set_plan({.epochs = options.epochs});
  }
  detail::FitRun run(options, data.steps_per_epoch());
  const detail::TrainingStep<Model, Optimizer, Loss> step(options, loss, where);
  run.emit(Event::kFitStart, Cancel::kFit);
  while (data.position().epoch < options.epochs && !run.is_cancelled(Cancel::kFit)) {
    const std::int64_t epoch = data.position().epoch;
    run.start_epoch(epoch, data.position().step);
    if (run.emit(Event::kEpochStart, Cancel::kEpoch) &&
        run.emit(Event::kTrainingStart, Cancel::kPart)) {
      bool goes_on = true;
      while (goes_on && data.position().epoch == epoch) {
        goes_on = step(run, model, optimizer, data.next());
      }
      run.emit(Event::kTrainingEnd, Cancel::kEpoch);
    }
    // Before the end is told, so that what is saved then goes on with the next epoch.
    const bool was_cut_short = data.position().epoch == epoch;
    if (was_cut_short && !run.is_cancelled(Cancel::kFit)) data.seek({epoch + 1, 0});
    run.end_epoch();
  }
  run.emit(Event::kFitEnd, Cancel::kFit);
  run.state().history.was_cancelled = run.is_cancelled(Cancel::kFit);
  return std::move(run.state().history);
}

// Loss and, for classes, accuracy and confusion of a model on batches, in the inference phase.
// `batches` is a range whose elements have `inputs` and `labels`: data::batches(test, 500).
template <class Model, class Batches, class Loss>
Evaluation evaluate(const Model& model, const Batches& batches, const Loss& loss,
                    CallSite where = CallSite::here()) {
  const CallScope scope(where);
  const PhaseScope inference(Phase::kInference);
  Evaluation out;
  Mean mean;
  for (const auto& batch : batches) {
    const Tensor predicted = detail::call_model(model, batch.inputs, where);
    mean.update(detail::call_loss(loss, predicted, batch.labels).template item<double>(),
                static_cast<double>(batch.inputs.shape()[0]));
    if (detail::has_classes(predicted, batch.labels)) {
      out.confusion.update(predicted, batch.labels);
    }
  }
  out.loss = mean.result();
  out.accuracy = out.confusion.accuracy();
  return out;
}

}  // namespace nn
}  // namespace etude
