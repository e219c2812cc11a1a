// SPDX-License-Identifier: Apache-2.0
#include "etude/kinds/table.h"
#include "etude/optim/adam.h"
#include "etude/optim/adam_rules.h"
#include "etude/optim/adaptive_rules.h"
#include "etude/optim/descent_rules.h"
#include "etude/optim/lbfgs.h"
#include "etude/optim/sgd.h"
#include "etude/optim/tensor_rules.h"
#include "etude/optim/transforms.h"

namespace etude::kinds {
namespace {

void add_rules(Rows optimizers) {
  optimizers.add<optim::SGD, optim::SGDOptions>("optim.SGD");
  optimizers.add<optim::Adam, optim::AdamOptions>("optim.Adam");
  optimizers.add<optim::AdamW, optim::AdamWOptions>("optim.AdamW");
  optimizers.add<optim::AdaMax, optim::AdaMaxOptions>("optim.AdaMax");
  optimizers.add<optim::RAdam, optim::RAdamOptions>("optim.RAdam");
  optimizers.add<optim::NAdam, optim::NAdamOptions>("optim.NAdam");
  optimizers.add<optim::AdaBelief, optim::AdaBeliefOptions>("optim.AdaBelief");
  optimizers.add<optim::Yogi, optim::YogiOptions>("optim.Yogi");
  optimizers.add<optim::ScheduleFreeAdamW, optim::ScheduleFreeAdamWOptions>(
      "optim.ScheduleFreeAdamW");
  optimizers.add<optim::RMSProp, optim::RMSPropOptions>("optim.RMSProp");
  optimizers.add<optim::AdaGrad, optim::AdaGradOptions>("optim.AdaGrad");
  optimizers.add<optim::AdaDelta, optim::AdaDeltaOptions>("optim.AdaDelta");
  optimizers.add<optim::FTRL, optim::FTRLOptions>("optim.FTRL");
  optimizers.add<optim::Lion, optim::LionOptions>("optim.Lion");
  optimizers.add<optim::Rprop, optim::RpropOptions>("optim.Rprop");
  optimizers.add<optim::ASGD, optim::ASGDOptions>("optim.ASGD");
  optimizers.add<optim::ScheduleFreeSGD, optim::ScheduleFreeSGDOptions>("optim.ScheduleFreeSGD");
  optimizers.add<optim::LARS, optim::LARSOptions>("optim.LARS");
  optimizers.add<optim::LAMB, optim::LAMBOptions>("optim.LAMB");
  optimizers.add<optim::Muon, optim::MuonOptions>("optim.Muon");
  optimizers.add<optim::Adafactor, optim::AdafactorOptions>("optim.Adafactor");
  optimizers.add<optim::Shampoo, optim::ShampooOptions>("optim.Shampoo");
}

// A transform of one number.
template <class N, optim::Transform (*transform)(N, CallSite)>
void number(Rows& rows, const char* name, const char* parameter, Value sample) {
  rows.function<NoOptions, N>(
      name, [](const NoOptions&, CallSite where, N value) { return transform(value, where); },
      {parameter}, {std::move(sample)});
}

void add_transforms(Rows rows) {
  number<double, optim::clip_by_value>(rows, "optim.clip_by_value", "limit", 1.0);
  number<double, optim::clip_by_norm>(rows, "optim.clip_by_norm", "norm", 1.0);
  number<double, optim::clip_by_global_norm>(rows, "optim.clip_by_global_norm", "norm", 1.0);
  number<int64_t, optim::accumulate>(rows, "optim.accumulate", "n", 4);
  number<double, optim::ema>(rows, "optim.ema", "decay", 0.99);
  rows.function("optim.centralize", [](const NoOptions&, CallSite) { return optim::centralize(); });
  rows.function<NoOptions, double, double>(
      "optim.add_noise",
      [](const NoOptions&, CallSite where, double eta, double gamma) {
        return optim::add_noise(eta, gamma, where);
      },
      {"eta", {"gamma", 0.55}}, {0.1});
  rows.function<optim::LossScalingOptions>(
      "optim.loss_scaling", [](const optim::LossScalingOptions& options, CallSite where) {
        return optim::loss_scaling(options, where);
      });
  rows.function<NoOptions, std::string>("optim.freeze",
                                        [](const NoOptions&, CallSite, std::string pattern) {
                                          return optim::freeze(std::move(pattern));
                                        },
                                        {"pattern"}, {"encoder/*"});
  rows.function<NoOptions, int64_t, int64_t>(
      "optim.swa",
      [](const NoOptions&, CallSite where, int64_t start, int64_t every) {
        return optim::swa(start, every, where);
      },
      {"start", {"every", 1}}, {100});
  rows.function<NoOptions, int64_t, double>(
      "optim.lookahead",
      [](const NoOptions&, CallSite where, int64_t k, double alpha) {
        return optim::lookahead(k, alpha, where);
      },
      {{"k", 5}, {"alpha", 0.5}});
}

}  // namespace

void add_optimizers(Table& table) {
  add_rules({table, Group::kOptimizer});
  add_transforms({table, Group::kTransform});
  // optim::lbfgs makes no object: it minimises a function of the program.
  Rows(table, Group::kRecord).add<optim::LBFGSOptions, optim::LBFGSOptions>("optim.LBFGSOptions");
}

}  // namespace etude::kinds
