// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include "etude/base/check.h"
#include "etude/kinds/table.h"
#include "etude/nn/fit/callbacks.h"
#include "etude/nn/fit/event_file.h"
#include "etude/nn/fit/progress.h"
#include "etude/optim/internal/optimizer.h"

namespace etude::kinds {
namespace {

using N = NoOptions;
using Borrowed = optim::internal::RuleOptimizer*;

void add_stops(Rows rows) {
  rows.function<nn::EarlyStoppingOptions>(
      "nn.early_stopping", [](const nn::EarlyStoppingOptions& options, CallSite where) {
        return nn::early_stopping(options, where);
      });
  rows.function<nn::PlateauOptions, Borrowed>(
      "nn.reduce_on_plateau",
      [](const nn::PlateauOptions& options, CallSite where, Borrowed optimizer) {
        ETUDE_REQUIRE(optimizer != nullptr, "reduce_on_plateau: the optimizer is null");
        return nn::reduce_on_plateau(*optimizer, options, where);
      },
      {"optimizer"});
  rows.function<N, double>(
      "nn.time_limit",
      [](const N&, CallSite where, double seconds) { return nn::time_limit(seconds, where); },
      {"seconds"}, {3600.0});
}

void add_logs(Rows rows) {
  rows.function<nn::CsvLogOptions, std::string>(
      "nn.csv_log",
      [](const nn::CsvLogOptions& options, CallSite, std::string path) {
        return nn::csv_log(std::move(path), options);
      },
      {"path"}, {"log.csv"});
  rows.function<nn::ProfileStepsOptions, std::string>(
      "nn.profile_steps",
      [](const nn::ProfileStepsOptions& options, CallSite where, std::string path) {
        return nn::profile_steps(std::move(path), options, where);
      },
      {"path"}, {"profile.json"});
  rows.function<nn::TensorboardOptions, std::string>(
      "nn.tensorboard",
      [](const nn::TensorboardOptions& options, CallSite where, std::string folder) {
        return nn::tensorboard(std::move(folder), options, where);
      },
      {"folder"}, {"runs"});
  rows.function<nn::ProgressOptions>("nn.progress", [](const nn::ProgressOptions& options,
                                                       CallSite) { return nn::progress(options); });
}

}  // namespace

void add_callbacks(Table& table) {
  const Rows rows(table, Group::kCallback);
  add_stops(rows);
  add_logs(rows);
  Rows(table, Group::kRecord).add<nn::Monitored, nn::Monitored>("nn.Monitored");
}

}  // namespace etude::kinds
