// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/fit.h"

#include <chrono>

#include "etude/base/check.h"

namespace etude::nn::detail {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void require_same_epochs(const FitOptions& options, std::int64_t epochs,
                         const std::string& checkpoint, CallSite where) {
  if (checkpoint.empty() || epochs == 0 || epochs == options.epochs || options.prolong) return;
  etude::internal::located("fit", where, [&] {
    ETUDE_THROW(kInvalidArgument,
                "epochs is {}, but the checkpoint '{}' was made in a run of {}. Pass .epochs = {}, "
                "or .prolong = true with schedules that know of it",
                options.epochs, checkpoint, epochs, epochs);
  });
}

bool has_classes(const Tensor& predicted, const Tensor& labels) {
  return predicted.rank() == 2 && predicted.shape()[1] > 1 &&
         ((labels.rank() == 1 && is_integer(labels.dtype())) ||
          labels.shape() == predicted.shape());
}

FitRun::FitRun(const FitOptions& options, std::int64_t steps) : options_(options) {
  state_.epochs = options.epochs;
  state_.steps = steps;
}

FitRun::~FitRun() = default;

bool FitRun::emit(Event event, Cancel scope) {
  for (const Callback& callback : options_.callbacks) callback(event, state_);
  return state_.cancel < scope;
}

void FitRun::start_epoch(std::int64_t epoch, std::int64_t step) {
  state_.epoch = epoch;
  state_.step = step;
  state_.loss.reset();
  state_.accuracy.reset();
  started_ = now_seconds();
}

bool FitRun::end_batch() {
  ++state_.step;
  if (state_.cancel == Cancel::kBatch) state_.cancel = Cancel::kNothing;
  const bool goes_on = emit(Event::kBatchEnd, Cancel::kPart);
  if (state_.cancel == Cancel::kBatch) state_.cancel = Cancel::kNothing;
  return goes_on;
}

void FitRun::end_epoch() {
  EpochRecord record{
      .epoch = state_.epoch, .loss = state_.loss.result(), .accuracy = state_.accuracy.result()};
  // What was called off for this part only does not concern the next one.
  if (state_.cancel <= Cancel::kPart) state_.cancel = Cancel::kNothing;
  if (options_.validation && state_.cancel < Cancel::kEpoch) {
    state_.is_validating = true;
    if (emit(Event::kValidationStart, Cancel::kPart)) {
      const PhaseScope inference(Phase::kInference);
      const Evaluation result = options_.validation();
      record.validation_loss = result.loss;
      record.validation_accuracy = result.accuracy;
      record.has_validation = true;
      emit(Event::kInferenceEnd, Cancel::kPart);
    }
    emit(Event::kValidationEnd, Cancel::kEpoch);
    state_.is_validating = false;
  }
  record.seconds = now_seconds() - started_;
  state_.history.epochs.push_back(record);
  emit(Event::kEpochEnd, Cancel::kFit);
  if (state_.cancel < Cancel::kFit) state_.cancel = Cancel::kNothing;
}

bool FitRun::may_update(const Tensor& predicted, const Tensor& labels, const Tensor& loss) {
  const auto weight = static_cast<double>(state_.batch_size);
  state_.batch_loss = loss.item<double>();
  state_.history.batch_losses.push_back(static_cast<float>(state_.batch_loss));
  state_.loss.update(state_.batch_loss, weight);
  if (has_classes(predicted, labels)) state_.accuracy.update(accuracy(predicted, labels), weight);
  return emit(Event::kInferenceEnd, Cancel::kBatch) && emit(Event::kUpdateStart, Cancel::kBatch);
}

}  // namespace etude::nn::detail
