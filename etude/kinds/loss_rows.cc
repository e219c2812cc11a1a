// SPDX-License-Identifier: Apache-2.0
// Losses as functions of predicted and expected values, with their options bound.
#include <utility>

#include "etude/kinds/table.h"
#include "etude/nn/losses/losses.h"
#include "etude/nn/losses/task_losses.h"
#include "etude/ops.h"

namespace etude::kinds {
namespace {

template <auto loss>
struct LossOf;
template <class O, Tensor (*loss)(const Arg&, const Arg&, const O&)>
struct LossOf<loss> {
  using Options = O;
  static Loss make(const O& options, CallSite) {
    return [options](const Arg& predicted, const Arg& expected) {
      return loss(predicted, expected, options);
    };
  }
};
template <class O, Tensor (*loss)(const Arg&, const Arg&, const Tensor&, const O&)>
struct LossOf<loss> {
  using Options = O;
  static TripleLoss make(const O& options, CallSite) {
    return
        [options](const Arg& x, const Arg& y, const Tensor& z) { return loss(x, y, z, options); };
  }
};

template <auto loss>
void add(Rows& rows, const char* name) {
  using Of = LossOf<loss>;
  using O = typename Of::Options;
  rows.function<O>(name, [](const O& options, CallSite where) { return Of::make(options, where); });
}

void add_pairs(Rows rows) {
  add<nn::l1_loss>(rows, "nn.l1_loss");
  add<nn::l2_loss>(rows, "nn.l2_loss");
  add<nn::mean_absolute_error>(rows, "nn.mean_absolute_error");
  add<nn::mean_squared_error>(rows, "nn.mean_squared_error");
  add<nn::mean_squared_log_error>(rows, "nn.mean_squared_log_error");
  add<nn::mean_absolute_percentage_error>(rows, "nn.mean_absolute_percentage_error");
  add<nn::log_cosh_loss>(rows, "nn.log_cosh_loss");
  add<nn::huber_loss>(rows, "nn.huber_loss");
  add<nn::hinge_loss>(rows, "nn.hinge_loss");
  add<nn::squared_hinge_loss>(rows, "nn.squared_hinge_loss");
  add<nn::categorical_hinge_loss>(rows, "nn.categorical_hinge_loss");
  add<nn::cosine_similarity_loss>(rows, "nn.cosine_similarity_loss");
  add<nn::poisson_loss>(rows, "nn.poisson_loss");
  add<nn::kl_divergence>(rows, "nn.kl_divergence");
  add<nn::binary_cross_entropy>(rows, "nn.binary_cross_entropy");
  add<nn::nll_loss>(rows, "nn.nll_loss");
  add<nn::sigmoid_cross_entropy>(rows, "nn.sigmoid_cross_entropy");
  add<nn::softmax_cross_entropy>(rows, "nn.softmax_cross_entropy");
  add<nn::focal_loss>(rows, "nn.focal_loss");
}

void add_tasks(Rows rows) {
  add<nn::triplet_margin_loss>(rows, "nn.triplet_margin_loss");
  add<nn::contrastive_loss>(rows, "nn.contrastive_loss");
  add<nn::cosine_embedding_loss>(rows, "nn.cosine_embedding_loss");
  add<nn::margin_ranking_loss>(rows, "nn.margin_ranking_loss");
  add<nn::multi_margin_loss>(rows, "nn.multi_margin_loss");
  add<nn::info_nce_loss>(rows, "nn.info_nce_loss");
  add<nn::gaussian_nll_loss>(rows, "nn.gaussian_nll_loss");
  add<nn::quantile_loss>(rows, "nn.quantile_loss");
  add<nn::smooth_l1_loss>(rows, "nn.smooth_l1_loss");
  add<nn::dice_loss>(rows, "nn.dice_loss");
  add<nn::iou_loss>(rows, "nn.iou_loss");
  add<nn::wasserstein_loss>(rows, "nn.wasserstein_loss");
  add<nn::ctc_loss>(rows, "nn.ctc_loss");
  rows.function<NoOptions, nn::Features>(
      "nn.perceptual_loss",
      [](const NoOptions&, CallSite, nn::Features features) -> Loss {
        return [features = std::move(features)](const Arg& predicted, const Arg& expected) {
          return nn::perceptual_loss(predicted, expected, features);
        };
      },
      {"features"});
}

}  // namespace

void add_losses(Table& table) {
  const Rows rows(table, Group::kLoss);
  add_pairs(rows);
  add_tasks(rows);
}

}  // namespace etude::kinds
