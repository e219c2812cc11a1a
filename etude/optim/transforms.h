// SPDX-License-Identifier: Apache-2.0
// What may stand before and behind the rule of any optimiser: transforms of gradients, which run in
// the order in which they were added, and averages of weights. For options by path, see
// RuleOptimizer::group.
//
//   optim::AdamW optimizer({.lr = 3e-4});
//   optimizer.add({optim::accumulate(4), optim::clip_by_global_norm(1), optim::ema(0.999)});
//   ...
//   nn::evaluate(optimizer.averaged(model), test, loss);
//
// They keep their state with that of the optimiser: checkpoints save it, copies and staged
// functions take it along, and steps of all modes give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/option_ranges.h"
#include "etude/optim/schedule.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim {

// One transform with its numbers: a value that the functions below make.
class Transform {
 public:
  Transform(std::string_view name, std::vector<double> numbers, std::string pattern = {})
      : name_(name), numbers_(std::move(numbers)), pattern_(std::move(pattern)) {}

  std::string_view name() const { return name_; }
  double number(std::size_t i) const { return numbers_[i]; }
  const std::string& pattern() const { return pattern_; }
  bool operator==(const Transform& other) const;

 private:
  std::string_view name_;  // a literal
  std::vector<double> numbers_;
  std::string pattern_;
};

// throws (all): kInvalidArgument, with the user's line, for a number out of its range.

// Each element of the gradients in [-limit, limit].
Transform clip_by_value(double limit, CallSite where = CallSite::here());
// The gradient of each tensor times min(1, norm / |g|): its length is at most `norm`.
Transform clip_by_norm(double norm, CallSite where = CallSite::here());
// All gradients times one number, so that the length of all of them as one vector is at most
// `norm`.
Transform clip_by_global_norm(double norm, CallSite where = CallSite::here());
// The gradients of matrices and filters less their mean over all axes but the last, that of
// outputs (Yong et al. 2020).
Transform centralize();
// Adds normal noise with variance eta / (1 + t)^gamma at update t from 0, drawn from the generator
// of this thread (Neelakantan et al. 2015).
Transform add_noise(double eta, double gamma = 0.55, CallSite where = CallSite::here());

// Updates the model at every n-th call only, by the mean of n gradients: batches that are n times
// as large. updates(), schedules and what stands behind the rule count such updates. In a graph
// each call computes an update, and takes it if it is due. Gradients since the last update wait in
// the state "accumulated", over the ends of epochs and in checkpoints; waiting() is their number. A
// training that ends between two updates leaves them out, and nn::fit warns of that. Take a number
// of batches that n divides where all shall count.
Transform accumulate(std::int64_t n, CallSite where = CallSite::here());

struct LossScalingOptions {
  double initial = 65536;
  double growth = 2;     // of the scale after `every` updates without overflow
  double backoff = 0.5;  // of the scale at an overflow
  std::int64_t every = 2000;

  static constexpr void ranges(const auto& row) {
    row("initial", &LossScalingOptions::initial, above(0));
    row("growth", &LossScalingOptions::growth, at_least(1));
    row("backoff", &LossScalingOptions::backoff, within(0, 1));
    row("every", &LossScalingOptions::every, at_least(1));
  }
};
// Divides gradients by the scale that the loss was multiplied by, RuleOptimizer::loss_scale(); an
// update whose gradients are not all finite is left out and lowers the scale. nn::fit multiplies
// the loss. cost: one look at the gradients per update, which ends a segment of lazy calls.
Transform loss_scaling(const LossScalingOptions& options = {}, CallSite where = CallSite::here());

// The tensors of these paths stay as they are, whatever the place of this transform: their
// gradients count nowhere. See path_matches.
Transform freeze(std::string pattern);

// Averages of weights, for RuleOptimizer::averaged. State "ema": decay e + (1 - decay) w, from the
// weights before the first update on.
Transform ema(double decay, CallSite where = CallSite::here());
// State "swa": the mean of the weights after update `start` and after each `every` further ones.
Transform swa(std::int64_t start, std::int64_t every = 1, CallSite where = CallSite::here());
// Every k updates the slow weights go alpha of the way to the weights, which become them (Zhang et
// al. 2019). State "slow".
Transform lookahead(std::int64_t k = 5, double alpha = 0.5, CallSite where = CallSite::here());

// Whether a pattern means the tensor of that path. `*` stands for any characters, '/' among them;
// without it a pattern means a tensor, or all of a part: "encoder" is that of "encoder/*".
bool path_matches(std::string_view pattern, std::string_view path);

// What differs for a group of parameters from the options of their optimiser.
struct GroupOptions {
  std::optional<Schedule> lr = {};
  std::optional<double> weight_decay = {};

  bool operator==(const GroupOptions& other) const;
};

namespace internal {

struct Group {
  std::string pattern;
  GroupOptions options;
  bool operator==(const Group& other) const;
};
// What an optimiser has beside its rule. A class with constructors, so that staged functions
// compare it whole by ==.
class Extras {
 public:
  Extras();
  Extras(const Extras& other);
  Extras(Extras&& other) noexcept;
  Extras& operator=(const Extras& other);
  Extras& operator=(Extras&& other) noexcept;
  ~Extras();
  std::vector<Transform> transforms;
  std::vector<Group> groups;
  bool operator==(const Extras& other) const;
};

}  // namespace internal
}  // namespace optim
}  // namespace etude
