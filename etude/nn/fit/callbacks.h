// SPDX-License-Identifier: Apache-2.0
// Callbacks for nn::fit: early stopping, the best model, a lower rate on a plateau, a CSV log, a
// time limit, a profile of some steps; and a search for the initial rate. Progress bars:
// progress.h. TensorBoard: event_file.h. Checkpoints: io/checkpoint/checkpoints.h.
//
//   nn::fit(model, optimizer, data, loss,
//           {.epochs = 50, .validation = validate,
//            .callbacks = {nn::keep_best(model), nn::early_stopping({.patience = 5}),
//                          nn::csv_log("run.csv")}});
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "etude/core/context/ambient.h"
#include "etude/core/option_ranges.h"
#include "etude/nn/fit/fit_state.h"
#include "etude/nn/internal/fit_step.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

// The result of an epoch that a callback monitors.
struct Monitored {
  std::string name = "validation_loss";  // a name for number_of()
  // Whether higher is better. Absent: true unless the name ends with "loss", "error" or
  // "perplexity".
  std::optional<bool> rises = {};
  double min_delta = 0;  // a gain of at most this is no improvement

  static constexpr void ranges(const auto& option) {
    option("min_delta", &Monitored::min_delta, at_least(0));
  }
};

// throws (all): kInvalidArgument, with the user's line, for an option out of its range; during
//               training, for an epoch without a number of that name.

struct EarlyStoppingOptions {
  Monitored monitor = {};
  int64_t patience = 5;

  static constexpr void ranges(const auto& option) {
    option("patience", &EarlyStoppingOptions::patience, at_least(1));
  }
};
// Stops the run after `patience` consecutive epochs without an improvement.
Callback early_stopping(const EarlyStoppingOptions& options = {},
                        CallSite where = CallSite::here());

struct PlateauOptions {
  Monitored monitor = {.min_delta = 1e-4};
  double factor = 0.1;
  int64_t patience = 10;
  int64_t cooldown = 0;  // epochs after a change that do not count
  double min_scale = 0;  // lower limit of the product of all factors

  static constexpr void ranges(const auto& option) {
    option("factor", &PlateauOptions::factor, within(0, 1));
    option("patience", &PlateauOptions::patience, at_least(1));
    option("cooldown", &PlateauOptions::cooldown, at_least(0));
    option("min_scale", &PlateauOptions::min_scale, at_least(0));
  }
};

namespace internal {

// Remembers the best number so far.
class Monitor {
 public:
  explicit Monitor(Monitored what) : what_(std::move(what)) {}
  // Whether an epoch is better than all epochs before it. throws: as number_of.
  bool improves(const EpochRecord& epoch);
  const std::string& name() const { return what_.name; }

 private:
  Monitored what_;
  std::optional<double> best_;
};

void check_monitored(std::string_view owner, const Monitored& what, CallSite where);
// `scale` multiplies the rate; `now` returns the product so far.
Callback plateau(const PlateauOptions& options, const std::function<void(double)>& scale,
                 const std::function<double()>& now, CallSite where);

}  // namespace internal

// Multiplies the rate by `factor` after `patience` consecutive epochs without an improvement. It
// calls optimizer.scale_rate(), so resumed runs keep the lower rate, and graphs remain valid. The
// optimiser is borrowed.
template <class Optimizer>
Callback reduce_on_plateau(Optimizer& optimizer, const PlateauOptions& options = {},
                           CallSite where = CallSite::here()) {
  return internal::plateau(
      options, [&optimizer](double factor) { optimizer.scale_rate(factor); },
      [&optimizer] { return optimizer.rate_scale(); }, where);
}

// At the end of the run, sets the model to its value after the best epoch. The stored copy shares
// unchanged tensors. The model is borrowed. io::checkpoints saves the best model to a file.
template <class Model>
Callback keep_best(Model& model, const Monitored& what = {}, CallSite where = CallSite::here()) {
  internal::check_monitored("keep_best", what, where);
  struct Kept {
    internal::Monitor monitor;
    std::optional<Model> best;
  };
  auto kept = std::make_shared<Kept>(Kept{internal::Monitor(what), {}});
  return [kept, &model](Event event, FitState& state) {
    if (event == Event::kEpochEnd && kept->monitor.improves(state.history.epochs.back())) {
      kept->best.emplace(model);
    } else if (event == Event::kFitEnd && kept->best) {
      model = *std::exchange(kept->best, std::nullopt);
    }
  };
}

struct CsvLogOptions {
  bool append = false;  // to an existing file, which must have the same columns
};
// Writes a row for each epoch: "epoch", counted from 1, and all numbers_of() the epoch. A row is in
// the file when its epoch has ended.
// throws: while training kFailedPrecondition, naming the file, if it cannot be written, or if
//         columns change.
Callback csv_log(std::string path, const CsvLogOptions& options = {});

// Stops the run after the first batch that ends at least `seconds` after the start.
Callback time_limit(double seconds, CallSite where = CallSite::here());

struct ProfileStepsOptions {
  int64_t first = 10;  // batch of the run, counted from 0
  int64_t steps = 5;

  static constexpr void ranges(const auto& option) {
    option("first", &ProfileStepsOptions::first, at_least(0));
    option("steps", &ProfileStepsOptions::steps, at_least(1));
  }
};
// Profiles some batches (eager/profile.h), and writes a trace that Perfetto opens. throws: during
// training, the errors of Profile::write_trace.
Callback profile_steps(std::string path, const ProfileStepsOptions& options = {},
                       CallSite where = CallSite::here());

struct FindRateOptions {
  double low = 1e-6;
  double high = 10;
  int64_t steps = 100;
  double smoothing = 0.9;  // of the losses: weight of the mean so far
  double divergence = 4;   // ends at a smoothed loss of so many times the lowest

  static constexpr void ranges(const auto& option) {
    option("low", &FindRateOptions::low, above(0));
    option("high", &FindRateOptions::high, above(0));
    option("steps", &FindRateOptions::steps, at_least(2));
    option("smoothing", &FindRateOptions::smoothing, up_to(0, 1));
    option("divergence", &FindRateOptions::divergence, above(1));
  }
};
struct RateSearch {
  std::vector<double> rates, losses;  // losses are smoothed
  double suggested = 0;  // the rate of the steepest fall of the loss over log(rate); 0: none
};

namespace internal {
// The state of a rate search.
class RateSearcher {
 public:
  explicit RateSearcher(const FindRateOptions& options) : options_(options) {}
  // The rate of the next step; none at the end of the search.
  std::optional<double> next() const;
  // Returns false if the search ends with this loss.
  bool add(double loss);
  RateSearch result() &&;

 private:
  FindRateOptions options_;
  RateSearch out_;
  double mean_ = 0;
};
void require_rate(double rate, CallSite where);
}  // namespace internal

// Trains copies of model and optimiser with a rate that rises from `low` to `high`, and returns the
// losses. The position of the data is restored.
//
// throws: kInvalidArgument for options out of their range, and if the rate of the optimiser is 0;
//         the errors of training.
template <class Model, class Optimizer, class Data, class Loss>
RateSearch find_rate(Model model, Optimizer optimizer, Data& data, const Loss& loss,
                     const FindRateOptions& options = {}, CallSite where = CallSite::here()) {
  etude::internal::check_options("find_rate", options, where);
  const CallScope scope(where);
  const PhaseScope training(Phase::kTraining);
  const auto start = data.position();
  internal::RateSearcher search(options);
  while (const std::optional<double> rate = search.next()) {
    internal::require_rate(optimizer.rate(), where);
    optimizer.scale_rate(*rate / optimizer.rate());
    const auto batch = data.next();
    const auto [given, gradients] = internal::infer(model, batch.inputs, batch.labels, loss,
                                                    internal::loss_scale(optimizer), false, where);
    if (!search.add(given.loss.template item<double>())) break;
    optimizer.update(model, gradients, where);
  }
  data.seek(start);
  return std::move(search).result();
}

}  // namespace nn
}  // namespace etude
