// SPDX-License-Identifier: Apache-2.0
// fit: the training loop with events for callbacks, and evaluate. A hand-written loop is as short
// and computes the same numbers:
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
#include <optional>
#include <utility>
#include <vector>

#include "etude/core/call/call_scope.h"
#include "etude/core/context/ambient.h"
#include "etude/core/option_ranges.h"
#include "etude/core/tensor.h"
#include "etude/lazy/lazy.h"
#include "etude/nn/fit/fit_state.h"
#include "etude/nn/internal/fit_step.h"
#include "etude/nn/parts.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

// Trains `model` from the current position of `data` to the end of epoch options.epochs - 1.
//
// `data` is data::Loader or any type with next(), position(), seek() and steps_per_epoch(); a batch
// has `inputs` and `labels`. loss(predicted, labels) returns a scalar:
//
//   fit(model, opt, data, nn::softmax_cross_entropy, {.epochs = 10})
//
// When a callback or an error stops the run, all state is as after the last finished batch, also
// the position of the data and the random sequence of this thread; a run saved in this state
// resumes with the same bits. Warns if gradients still wait at the end for an update by
// optim::accumulate().
//
// throws: kInvalidArgument for data from a checkpoint of a run with another number of epochs; the
//         errors of model, loss, optimiser, data and callbacks; errors of layers name their path in
//         the model.
template <class Model, class Optimizer, class Data, class Loss>
History fit(Model& model, Optimizer& optimizer, Data& data, const Loss& loss,
            const FitOptions& options = {}, CallSite where = CallSite::here()) {
  const CallScope scope(where);
  etude::internal::check_options("fit", options, where);
  if constexpr (requires { data.plan(); }) {
    internal::require_same_epochs(options, data.plan().epochs, data.plan().checkpoint, where);
    data.set_plan({.epochs = options.epochs});
  }
  lazy_barrier({}, where);
  internal::FitRun run(options, data.steps_per_epoch());
  const internal::TrainingStep<Model, Optimizer, Loss> step(options, loss, where);
  internal::BestState<Model, Optimizer> best(options, model, optimizer);
  run.emit(Event::kFitStart, Cancel::kFit);
  while (data.position().epoch < options.epochs && !run.is_cancelled(Cancel::kFit)) {
    const int64_t epoch = data.position().epoch;
    run.start_epoch(epoch, data.position().step);
    if (run.emit(Event::kEpochStart, Cancel::kEpoch) &&
        run.emit(Event::kTrainingStart, Cancel::kPart)) {
      bool goes_on = true;
      while (goes_on && data.position().epoch == epoch) {
        const auto position = data.position();
        const Generator generator = ambient().generator;
        try {
          step(run, model, optimizer, data.next());
        } catch (...) {
          ambient().generator = generator;
          data.seek(position);
          throw;
        }
        if (run.leaves_batch()) {
          ambient().generator = generator;
          data.seek(position);
          break;
        }
        goes_on = run.end_batch();
        best.restore(run, model, optimizer);
      }
      run.emit(Event::kTrainingEnd, Cancel::kEpoch);
    }
    // Read before the last events, so that a state which a callback saves continues with the next
    // epoch.
    const bool was_cut_short = data.position().epoch == epoch;
    if (was_cut_short && !run.is_cancelled(Cancel::kFit)) data.seek({epoch + 1, 0});
    run.end_epoch();
    best.keep(run, model, optimizer);
  }
  run.emit(Event::kFitEnd, Cancel::kFit);
  internal::warn_of_waiting(optimizer, where);
  run.state().history.was_cancelled = run.is_cancelled(Cancel::kFit);
  return std::move(run.state().history);
}

// Returns loss and metrics of a model on batches, in the inference phase. Without metrics, it
// returns accuracy and confusion if the labels are classes. `batches` is a range whose elements
// have `inputs` and `labels`: data::batches(test, 500). In a lazy scope each batch ends with a
// barrier.
template <class Model, class Batches, class Loss>
Evaluation evaluate(const Model& model, const Batches& batches, const Loss& loss,
                    Metrics metrics = {}, CallSite where = CallSite::here()) {
  const CallScope scope(where);
  const PhaseScope inference(Phase::kInference);
  Evaluation out;
  Mean mean;
  for (const auto& batch : batches) {
    const Tensor predicted = internal::call_model(model, batch.inputs, where);
    const Tensor value = internal::call_loss(loss, predicted, batch.labels);
    for (auto& [name, metric] : metrics) metric.update(predicted, batch.labels, where);
    if (metrics.empty() && internal::has_classes(predicted, batch.labels)) {
      out.confusion.update(predicted, batch.labels);
    }
    lazy_barrier({}, where);
    mean.update(value.template item<double>(), static_cast<double>(batch.inputs.shape()[0]));
  }
  out.loss = mean.result();
  out.accuracy = out.confusion.accuracy();
  for (const auto& [name, metric] : metrics) out.metrics[name] = metric.result(where);
  return out;
}

// Returns the outputs of a model for all batches, concatenated along axis 0, in the inference
// phase. An element of `batches` is a tensor, or has `inputs`.
// throws: kInvalidArgument if there are no batches; the errors of the model.
template <class Model, class Batches>
Tensor predict(const Model& model, const Batches& batches, CallSite where = CallSite::here()) {
  const CallScope scope(where);
  const PhaseScope inference(Phase::kInference);
  std::vector<Tensor> all;
  for (const auto& batch : batches) {
    if constexpr (requires { batch.inputs; }) {
      all.push_back(internal::call_model(model, batch.inputs, where));
    } else {
      all.push_back(internal::call_model(model, batch, where));
    }
    lazy_barrier({}, where);
  }
  return internal::joined_rows(all, where);
}

}  // namespace nn
}  // namespace etude
