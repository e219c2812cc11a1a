// SPDX-License-Identifier: Apache-2.0
// Optimisers that use whole tensors: LARS and LAMB use norms; Muon, Adafactor and Shampoo treat
// tensors as matrices. Each step allocates a few tensors of the size of its parameter, except steps
// of LARS and steps of vectors in Muon and Shampoo.
//
// Norms are correct for elements of any magnitude. Means and sums of squared gradients in the state
// may overflow (LAMB, Adafactor, Shampoo, vectors in Muon). float32 gradients of 1e19 and more then
// lead to zero or NaN steps. To avoid this, add clip_by_global_norm (transforms.h).
#pragma once

#include <optional>
#include <string_view>

#include "etude/optim/adam.h"
#include "etude/optim/internal/optimizer.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

// Constructors throw kInvalidArgument for an option out of its range.

struct LARSOptions {
  Schedule lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  double trust = 1e-3;

  static constexpr void ranges(const auto& option) {
    option("lr", &LARSOptions::lr, at_least(0));
    option("momentum", &LARSOptions::momentum, up_to(0, 1));
    option("weight_decay", &LARSOptions::weight_decay, at_least(0));
    option("trust", &LARSOptions::trust, above(0));
  }
};
// For each tensor, k = trust |w| / (|g| + weight_decay |w|), or 1 if |w| or |g| is 0;
// v = momentum v + k (g + weight_decay w);  w -= lr v (You et al. 2017).
class LARS : public internal::OptimizerWith<LARSOptions> {
 public:
  explicit LARS(LARSOptions options = {}, CallSite where = CallSite::here());

 private:
  std::optional<double> option(std::string_view name) const override;
  void run_step(const internal::Step& step) const override;

  ETUDE_FIELDS(LARS, slots_);
};

struct LAMBOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0.01;

  static constexpr void ranges(const auto& option) {
    internal::adam_ranges<LAMBOptions>(option);
    option("weight_decay", &LAMBOptions::weight_decay, at_least(0));
  }
};
// r = mhat / (sqrt(vhat) + eps) + weight_decay w, with mhat and vhat as in Adam;
// w -= lr k r, where k = |w| / |r|, or 1 if |w| or |r| is 0 (You et al. 2019).
class LAMB : public internal::OptimizerWith<LAMBOptions> {
 public:
  explicit LAMB(LAMBOptions options = {}, CallSite where = CallSite::here());

 private:
  void run_step(const internal::Step& step) const override;
  bool is_small_step(const Tensor& /*parameter*/) const override { return false; }

  ETUDE_FIELDS(LAMB, slots_);
};

struct MuonOptions {
  Schedule lr = 0.02;
  double momentum = 0.95;
  double weight_decay = 0;     // w -= lr weight_decay w
  double vector_rate = 0.015;  // tensors with fewer than two axes have the rate vector_rate * lr
  double beta2 = 0.95;         // of the variance of these tensors
  double eps = 1e-8;           // added to the root of this variance

  static constexpr void ranges(const auto& option) {
    option("lr", &MuonOptions::lr, at_least(0));
    option("momentum", &MuonOptions::momentum, up_to(0, 1));
    option("weight_decay", &MuonOptions::weight_decay, at_least(0));
    option("vector_rate", &MuonOptions::vector_rate, at_least(0));
    option("beta2", &MuonOptions::beta2, up_to(0, 1));
    option("eps", &MuonOptions::eps, at_least(0));
  }
};
// w -= lr sqrt(max(1, columns / rows)) O. O is the Nesterov momentum, made nearly orthogonal by
// five Newton-Schulz steps (Jordan et al. 2024). A filter counts as a matrix: the last axis is the
// axis of columns, and all other axes together are the axis of rows. Tensors with fewer than two
// axes take the step of AdamW.
class Muon : public internal::OptimizerWith<MuonOptions> {
 public:
  explicit Muon(MuonOptions options = {}, CallSite where = CallSite::here());

 private:
  std::optional<double> option(std::string_view name) const override;
  internal::StateStart start_of(std::string_view state, const Tensor& value) const override;
  void run_step(const internal::Step& step) const override;
  bool is_small_step(const Tensor& x) const override { return x.rank() < 2; }

  ETUDE_FIELDS(Muon, slots_);
};

struct AdafactorOptions {
  Schedule lr = 0.01;       // the relative rate is min(lr, 1 / sqrt(t))
  double fading = 0.8;      // a new gradient has weight t^-fading in the means
  double eps1 = 1e-7;       // minimum of the root of a variance
  double eps2 = 1e-3;       // minimum of the RMS of a parameter, which multiplies the rate
  double threshold = 1;     // maximum of the RMS of a direction
  double weight_decay = 0;  // w -= lr weight_decay w

  static constexpr void ranges(const auto& option) {
    option("lr", &AdafactorOptions::lr, at_least(0));
    option("fading", &AdafactorOptions::fading, at_least(0));
    option("eps1", &AdafactorOptions::eps1, at_least(0));
    option("eps2", &AdafactorOptions::eps2, at_least(0));
    option("threshold", &AdafactorOptions::threshold, above(0));
    option("weight_decay", &AdafactorOptions::weight_decay, at_least(0));
  }
};
// Divides gradients by the roots of their variances. For an n x m matrix the state holds only the
// means of rows and of columns: n + m numbers instead of n m (Shazeer and Stern 2018). Axes before
// the last two index a batch of matrices.
class Adafactor : public internal::OptimizerWith<AdafactorOptions> {
 public:
  explicit Adafactor(AdafactorOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::StateStart start_of(std::string_view state, const Tensor& value) const override;
  void run_step(const internal::Step& step) const override;
  bool is_small_step(const Tensor& /*parameter*/) const override { return false; }

  ETUDE_FIELDS(Adafactor, slots_);
};

struct ShampooOptions {
  Schedule lr = 0.1;
  double eps = 1e-4;        // added to the diagonals of L and R before their roots
  double weight_decay = 0;  // w -= lr weight_decay w

  static constexpr void ranges(const auto& option) {
    option("lr", &ShampooOptions::lr, at_least(0));
    option("eps", &ShampooOptions::eps, above(0));
    option("weight_decay", &ShampooOptions::weight_decay, at_least(0));
  }
};
// L += G G';  R += G' G;  w -= lr L^(-1/4) G R^(-1/4) (Gupta et al. 2018). Newton's iteration
// computes the roots from matrix products. A filter counts as a matrix, as in Muon. Tensors with
// fewer than two axes take the step of AdaGrad, which is the same method with a diagonal sum.
// cost: each step of a matrix computes 180 products of the size of L, and 180 of the size of R. So
// matrices should be small.
class Shampoo : public internal::OptimizerWith<ShampooOptions> {
 public:
  explicit Shampoo(ShampooOptions options = {}, CallSite where = CallSite::here());

 private:
  internal::StateStart start_of(std::string_view state, const Tensor& value) const override;
  void run_step(const internal::Step& step) const override;
  bool is_small_step(const Tensor& x) const override { return x.rank() < 2; }

  ETUDE_FIELDS(Shampoo, slots_);
};

}  // namespace optim
}  // namespace etude
