// SPDX-License-Identifier: Apache-2.0
// A training step in each mode, and the parts of a run that do not depend on the model. Used by
// fit.h and callbacks.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "etude/autodiff/gradient.h"
#include "etude/base/structure.h"
#include "etude/core/call/arg.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/call/values.h"
#include "etude/core/context/ambient.h"
#include "etude/core/internal/owned_result.h"
#include "etude/core/tensor.h"
#include "etude/lazy/lazy.h"
#include "etude/nn/fit/fit_state.h"
#include "etude/nn/parts.h"
#include "etude/stage/function.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {
namespace internal {

// The results of a step before the update. The norm is computed on request.
struct Inference {
  Tensor predicted, loss, gradient_norm;
};

// The parts of fit that do not depend on the model: events, history, time.
class FitRun {
 public:
  FitRun(const FitOptions& options, int64_t steps);
  FitRun(const FitRun&) = delete;
  FitRun& operator=(const FitRun&) = delete;
  ~FitRun();
  FitState& state() { return state_; }
  // Calls the callbacks. Returns false if one of them cancelled `scope` or a larger part.
  bool emit(Event event, Cancel scope);
  bool is_cancelled(Cancel scope) const { return state_.cancel >= scope; }
  // Whether a callback ended the run before the update of the current batch. A run that goes on
  // begins with this batch.
  bool leaves_batch() const { return leaves_batch_; }
  void start_epoch(int64_t epoch, int64_t step);
  void end_epoch();
  // Returns false if the training part ends here.
  bool end_batch();
  // Records the results of a batch, and emits the events of the end of inference and the start of
  // the update. Returns false if a callback, or a loss that is not finite, cancels the update.
  bool may_update(const Inference& given, const Tensor& labels);
  // Whether the last batch requests the best model; true once per request.
  bool takes_restore() { return std::exchange(wants_restore_, false); }
  // Whether the last finished epoch has the lowest loss so far.
  bool is_best() const { return is_best_; }

 private:
  bool is_refused(double loss);

  const FitOptions& options_;
  FitState state_;
  double started_ = 0;
  double best_ = 0;
  bool has_best_ = false, is_best_ = false, wants_restore_ = false, leaves_batch_ = false;
};

// throws: kInvalidArgument for a checkpoint of a run of another number of epochs, unless the
// options prolong it.
void require_same_epochs(const FitOptions& options, int64_t epochs, const std::string& checkpoint,
                         CallSite where);

bool has_classes(const Tensor& predicted, const Tensor& labels);

// The norm of all tensors as one vector.
Tensor length_of(Operands tensors);
template <class Gradients>
Tensor gradient_norm(const Gradients& gradients) {
  OperandList all;
  for_each_leaf<Tensor>(gradients, [&](const Tensor& x) {
    if (x.has_value()) all.add(x);
  });
  return length_of(all.view());
}

// Concatenates predictions. throws: kInvalidArgument if there are none.
Tensor joined_rows(const std::vector<Tensor>& parts, CallSite where);

// The loss scale that the optimiser requests; absent: none.
template <class Optimizer>
Tensor loss_scale(const Optimizer& optimizer) {
  if constexpr (requires { optimizer.loss_scale(); }) {
    return optimizer.loss_scale();
  } else {
    return {};
  }
}
Tensor scaled_loss(const Tensor& loss, const Tensor& scale);

// Warns, once per line, if gradients wait in the optimiser at the end of a run.
void warn_of_waiting(int64_t gradients, CallSite where);
template <class Optimizer>
void warn_of_waiting(const Optimizer& optimizer, CallSite where) {
  if constexpr (requires { optimizer.waiting(); }) warn_of_waiting(optimizer.waiting(), where);
}

// A loss is any callable, or an op with options, such as nn::softmax_cross_entropy.
template <class Loss>
Tensor call_loss(const Loss& loss, const Tensor& predicted, const Tensor& labels) {
  return etude::internal::call_owned(loss, predicted, labels);
}
template <class Options>
Tensor call_loss(Tensor (&loss)(const Arg&, const Arg&, const Options&), const Tensor& predicted,
                 const Tensor& labels) {
  return loss(predicted, labels, Options{});
}

// Predictions and loss of a batch, and the gradients of the model.
template <class Model, class Loss>
auto infer(const Model& model, const Tensor& inputs, const Tensor& labels, const Loss& loss,
           const Tensor& scale, bool wants_norm, CallSite where) {
  Inference out;
  auto [value, gradients] = value_with_gradient({[&](const Model& m) {
                                                   out.predicted = call_model(m, inputs, where);
                                                   const Tensor plain =
                                                       call_loss(loss, out.predicted, labels);
                                                   if (!scale.has_value()) return plain;
                                                   out.loss = plain;
                                                   return scaled_loss(plain, scale);
                                                 },
                                                 where},
                                                model);
  if (!scale.has_value()) out.loss = std::move(value);
  if (wants_norm) out.gradient_norm = gradient_norm(gradients);
  return std::pair(std::move(out), std::move(gradients));
}

// The step of a training run, in any mode.
template <class Model, class Optimizer, class Loss>
class TrainingStep {
 public:
  TrainingStep(const FitOptions& options, const Loss& loss, CallSite where)
      : looks_first_(!options.callbacks.empty() || options.on_non_finite != NonFinite::kGoOn),
        is_lazy_(options.mode == Mode::kLazy),
        wants_norm_(options.gradient_norms),
        loss_(loss),
        where_(where) {
    if (options.mode != Mode::kStaged) return;
    staged_.emplace(
        [&loss, where, wants_norm = wants_norm_](Model& model, Optimizer& optimizer,
                                                 const Tensor& inputs, const Tensor& labels) {
          auto [given, gradients] =
              infer(model, inputs, labels, loss, loss_scale(optimizer), wants_norm, where);
          optimizer.update(model, gradients, where);
          std::vector<Tensor> out{std::move(given.predicted), std::move(given.loss)};
          if (wants_norm) out.push_back(std::move(given.gradient_norm));
          return out;
        },
        FunctionOptions{.name = "fit", .arg_names = {"model", "optimizer", "inputs", "labels"}},
        where);
  }

  // Runs one batch up to its update.
  template <class Batch>
  void operator()(FitRun& run, Model& model, Optimizer& optimizer, const Batch& batch) const {
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
    // For a run inside a lazy scope; a step of kLazy has its own barrier.
    lazy_barrier({}, where_);
  }

 private:
  template <class Batch>
  auto inferred(const Model& model, const Optimizer& optimizer, const Batch& batch) const {
    return infer(model, batch.inputs, batch.labels, loss_, loss_scale(optimizer), wants_norm_,
                 where_);
  }

  template <class Batch>
  void run_eager(FitRun& run, Model& model, Optimizer& optimizer, const Batch& batch) const {
    const auto [given, gradients] = inferred(model, optimizer, batch);
    if (run.may_update(given, batch.labels)) optimizer.update(model, gradients, where_);
  }

  template <class Batch>
  void run_lazy(FitRun& run, Model& model, Optimizer& optimizer, const Batch& batch) const {
    Inference all;
    {
      const LazyScope lazy;
      if (looks_first_) {
        run_eager(run, model, optimizer, batch);
      } else {
        // Release gradients before the barrier, so that values without another owner need not be
        // kept.
        auto [given, gradients] = inferred(model, optimizer, batch);
        optimizer.update(model, gradients, where_);
        all = std::move(given);
      }
      lazy_barrier({}, where_);
    }
    if (!looks_first_) run.may_update(all, batch.labels);
  }

  template <class Batch>
  void run_staged(FitRun& run, Model& model, Optimizer& optimizer, const Batch& batch) const {
    const auto step = [&](Model& m, Optimizer& o) {
      std::vector<Tensor> out = (*staged_)(m, o, batch.inputs, batch.labels, where_);
      return run.may_update({std::move(out[0]), std::move(out[1]), wants_norm_ ? out[2] : Tensor()},
                            batch.labels);
    };
    if (!looks_first_) {
      step(model, optimizer);
      return;
    }
    Model next_model = model;
    Optimizer next_optimizer = optimizer;
    if (!step(next_model, next_optimizer)) return;
    model = std::move(next_model);
    optimizer = std::move(next_optimizer);
  }

  bool looks_first_, is_lazy_, wants_norm_;
  const Loss& loss_;
  CallSite where_;
  std::optional<
      etude::Function<std::vector<Tensor>(Model&, Optimizer&, const Tensor&, const Tensor&)>>
      staged_;
};

// Model and optimiser after the best epoch, if the policy of a run requires them.
template <class Model, class Optimizer>
class BestState {
 public:
  BestState(const FitOptions& options, const Model& model, const Optimizer& optimizer) {
    if (options.on_non_finite == NonFinite::kRestoreBest) kept_.emplace(model, optimizer);
  }
  void keep(const FitRun& run, const Model& model, const Optimizer& optimizer) {
    if (kept_ && run.is_best()) kept_.emplace(model, optimizer);
  }
  void restore(FitRun& run, Model& model, Optimizer& optimizer) const {
    if (!run.takes_restore() || !kept_) return;
    model = kept_->first;
    optimizer = kept_->second;
  }

 private:
  std::optional<std::pair<Model, Optimizer>> kept_;
};

}  // namespace internal
}  // namespace nn
}  // namespace etude
