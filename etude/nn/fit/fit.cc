// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/fit/fit.h"

#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/base/warning.h"
#include "etude/core/call/run.h"
#include "etude/nn/fit/clock.h"
#include "etude/ops.h"

namespace etude::nn {

std::vector<std::pair<std::string, double>> numbers_of(const EpochRecord& epoch) {
  std::vector<std::pair<std::string, double>> out{{"loss", epoch.loss}};
  if (epoch.metrics.empty()) out.emplace_back("accuracy", epoch.accuracy);
  for (const auto& [name, value] : epoch.metrics) out.emplace_back(name, value);
  if (epoch.has_validation) {
    out.emplace_back("validation_loss", epoch.validation_loss);
    if (epoch.validation_metrics.empty()) {
      out.emplace_back("validation_accuracy", epoch.validation_accuracy);
    }
    for (const auto& [name, value] : epoch.validation_metrics) {
      out.emplace_back("validation_" + name, value);
    }
  }
  out.emplace_back("seconds", epoch.seconds);
  return out;
}

double number_of(const EpochRecord& epoch, const std::string& name) {
  std::string names;
  for (const auto& [known, value] : numbers_of(epoch)) {
    if (known == name) return value;
    names += (names.empty() ? "" : ", ") + known;
  }
  ETUDE_THROW(kInvalidArgument, "an epoch has no number '{}', but {}", name, names);
}

namespace internal {
void require_same_epochs(const FitOptions& options, int64_t epochs, const std::string& checkpoint,
                         CallSite where) {
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

Tensor length_of(Operands tensors) {
  if (tensors.size() == 0) return Tensor(std::vector<double>{0}, Shape{});
  return etude::internal::run(etude::internal::op<"length">(), tensors);
}

Tensor scaled_loss(const Tensor& loss, const Tensor& scale) {
  return loss * astype(scale, loss.dtype());
}

Tensor joined_rows(const std::vector<Tensor>& parts, CallSite where) {
  return etude::internal::located("predict", where, [&] {
    ETUDE_REQUIRE(!parts.empty(), "there are no batches to predict from");
    return parts.size() == 1 ? parts[0] : concat(parts);
  });
}

void warn_of_waiting(int64_t gradients, CallSite where) {
  if (gradients == 0) return;
  const std::string place = fmt::format("{}:{}", where.file, where.line);
  etude::internal::warn_once(
      "gradients wait " + place,
      fmt::format("fit at {}: {} {} for an update by accumulate(): a training that ends here "
                  "leaves them out. Take a number of batches that its n divides, or go on",
                  place, gradients, gradients == 1 ? "gradient waits" : "gradients wait"));
}

FitRun::FitRun(const FitOptions& options, int64_t steps) : options_(options) {
  state_.epochs = options.epochs;
  state_.steps = steps;
}

FitRun::~FitRun() = default;

bool FitRun::emit(Event event, Cancel scope) {
  for (const Callback& callback : options_.callbacks) callback(event, state_);
  const bool is_before_update =
      event == Event::kBatchStart || event == Event::kInferenceEnd || event == Event::kUpdateStart;
  if (is_before_update && !state_.is_validating) leaves_batch_ = is_cancelled(Cancel::kFit);
  return state_.cancel < scope;
}

void FitRun::start_epoch(int64_t epoch, int64_t step) {
  state_.epoch = epoch;
  state_.step = step;
  state_.loss.reset();
  state_.accuracy.reset();
  state_.metrics = options_.metrics;
  started_ = internal::now_seconds();
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
  for (const auto& [name, metric] : state_.metrics) record.metrics[name] = metric.result();
  // A cancellation of this part only does not concern the next part.
  if (state_.cancel <= Cancel::kPart) state_.cancel = Cancel::kNothing;
  if (options_.validation && state_.cancel < Cancel::kEpoch) {
    state_.is_validating = true;
    if (emit(Event::kValidationStart, Cancel::kPart)) {
      const PhaseScope inference(Phase::kInference);
      const Evaluation result = options_.validation();
      record.validation_loss = result.loss;
      record.validation_accuracy = result.accuracy;
      record.validation_metrics = result.metrics;
      record.has_validation = true;
      emit(Event::kInferenceEnd, Cancel::kPart);
    }
    emit(Event::kValidationEnd, Cancel::kEpoch);
    state_.is_validating = false;
  }
  record.seconds = internal::now_seconds() - started_;
  const double score = record.has_validation ? record.validation_loss : record.loss;
  is_best_ = std::isfinite(score) && (!has_best_ || score < best_);
  if (is_best_) best_ = score;
  has_best_ = has_best_ || is_best_;
  state_.history.epochs.push_back(record);
  emit(Event::kEpochEnd, Cancel::kFit);
  if (state_.cancel < Cancel::kFit) state_.cancel = Cancel::kNothing;
}

// Notes a loss that the policy does not let through.
bool FitRun::is_refused(double loss) {
  if (std::isfinite(loss) || options_.on_non_finite == NonFinite::kGoOn) return false;
  if (options_.on_non_finite == NonFinite::kStop) {
    state_.history.why = fmt::format(
        "the loss is {} in epoch {}, batch {}; the model is as before it. Lower the rate, clip "
        "gradients (optim::clip_by_global_norm), or look for bad samples",
        loss, state_.epoch + 1, state_.step + 1);
    state_.cancel = Cancel::kFit;
  } else {
    ++state_.history.skipped_batches;
    wants_restore_ = options_.on_non_finite == NonFinite::kRestoreBest;
  }
  return true;
}

bool FitRun::may_update(const Inference& given, const Tensor& labels) {
  const auto weight = static_cast<double>(state_.batch_size);
  state_.batch_loss = given.loss.item<double>();
  state_.history.batch_losses.push_back(static_cast<float>(state_.batch_loss));
  if (given.gradient_norm.has_value()) {
    state_.gradient_norm = given.gradient_norm.item<double>();
    state_.history.gradient_norms.push_back(static_cast<float>(state_.gradient_norm));
  }
  if (is_refused(state_.batch_loss)) return false;
  state_.loss.update(state_.batch_loss, weight);
  for (auto& [name, metric] : state_.metrics) metric.update(given.predicted, labels);
  if (state_.metrics.empty() && has_classes(given.predicted, labels)) {
    state_.accuracy.update(accuracy(given.predicted, labels), weight);
  }
  return emit(Event::kInferenceEnd, Cancel::kBatch) && emit(Event::kUpdateStart, Cancel::kBatch);
}

}  // namespace internal
}  // namespace etude::nn
