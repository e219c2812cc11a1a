// SPDX-License-Identifier: Apache-2.0
// Transforms for any optimiser: transforms of gradients, which run in the order in which they were
// added, and averages of weights. For options by path see RuleOptimizer::group.
//
//   optim::AdamW optimizer({.lr = 3e-4});
//   optimizer.add({optim::accumulate(4), optim::clip_by_global_norm(1), optim::ema(0.999)});
//   ...
//   nn::evaluate(optimizer.averaged(model), test, loss);
//
// The state of transforms is part of the state of the optimiser. So checkpoints, copies and staged
// functions include it. All modes compute the same bits.
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

// A transform with its numbers: a value that the functions below return.
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

// Clamps each element of the gradients to [-limit, limit].
Transform clip_by_value(double limit, CallSite where = CallSite::here());
// Multiplies the gradient g of each tensor by min(1, norm / |g|).
Transform clip_by_norm(double norm, CallSite where = CallSite::here());
// Multiplies all gradients by min(1, norm / |g|), where |g| is the norm of all gradients as one
// vector.
Transform clip_by_global_norm(double norm, CallSite where = CallSite::here());
// Subtracts from each gradient its mean over all axes except the last, the output axis (Yong et al.
// 2020). Gradients with fewer than two axes do not change.
Transform centralize();
// Adds normal noise to the gradients (Neelakantan et al. 2015). The variance at update t, counted
// from 0, is eta / (1 + t)^gamma. The generator of this thread draws the noise.
Transform add_noise(double eta, double gamma = 0.55, CallSite where = CallSite::here());

// Updates the model only at every n-th call, with the mean of n gradients. This is like an update
// with a batch that is n times as large. updates(), schedules and averages of weights count these
// updates only. In a graph each call computes an update, and applies the update if it is due.
//
// The state "accumulated" holds the gradients since the last update. The end of an epoch does not
// reset this state, and checkpoints store it. waiting() returns the number of these gradients. If
// training ends between two updates, the gradients are unused, and nn::fit prints a warning. To use
// every batch, take a number of batches that n divides.
Transform accumulate(int64_t n, CallSite where = CallSite::here());

struct LossScalingOptions {
  double initial = 65536;
  double growth = 2;     // factor of the scale after `every` successive calls without overflow
  double backoff = 0.5;  // factor of the scale after an overflow
  int64_t every = 2000;

  static constexpr void ranges(const auto& option) {
    option("initial", &LossScalingOptions::initial, above(0));
    option("growth", &LossScalingOptions::growth, at_least(1));
    option("backoff", &LossScalingOptions::backoff, within(0, 1));
    option("every", &LossScalingOptions::every, at_least(1));
  }
};
// Divides gradients by the scale of the loss, RuleOptimizer::loss_scale(). If a gradient is not
// finite, skips the update and lowers the scale. nn::fit multiplies the loss by the scale.
// cost: outside of graphs, each update reads whether all gradients are finite. The read ends a
// segment of lazy calls.
Transform loss_scaling(const LossScalingOptions& options = {}, CallSite where = CallSite::here());

// Freezes the tensors whose paths match `pattern` (path_matches): their gradients are ignored. The
// position of this transform among the others has no effect.
Transform freeze(std::string pattern);

// A running average of the weights, for RuleOptimizer::averaged. Each update sets the state "ema"
// to decay ema + (1 - decay) w. The state starts as the weights before the first update.
Transform ema(double decay, CallSite where = CallSite::here());
// A mean of weights, for RuleOptimizer::averaged. The state "swa" is the mean of the weights after
// the updates with the numbers start, start + every, start + 2 every, ..., counted from 1.
Transform swa(int64_t start, int64_t every = 1, CallSite where = CallSite::here());
// After every k updates, moves the slow weights by the fraction alpha towards the weights, then
// sets the weights to the slow weights (Zhang et al. 2019). The state "slow" holds the slow
// weights.
Transform lookahead(int64_t k = 5, double alpha = 0.5, CallSite where = CallSite::here());

// Whether `pattern` matches the tensor at `path`. `*` matches any characters, including '/'. A
// pattern without `*` matches a tensor or a whole part: "encoder" also matches "encoder/w".
bool path_matches(std::string_view pattern, std::string_view path);

// The options of a group of parameters. An absent option keeps the value of the optimiser.
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
// The transforms and the groups of an optimiser. This class is no aggregate, because it declares
// constructors. So staged functions compare it by ==, not field by field.
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
