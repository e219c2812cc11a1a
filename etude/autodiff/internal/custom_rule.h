// SPDX-License-Identifier: Apache-2.0
// A call of tensors whose derivative is a user's rule: how each context of the stack runs
// custom_gradient and recompute_grad (custom_gradient.h).
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "etude/autodiff/tape/tape_options.h"
#include "etude/base/call_site.h"
#include "etude/core/context/context.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class BatchContext;

namespace internal {

// While alive, the tapes of this thread do not record, except those outside of a forward mode or a
// trace: they record its calls.
class UntapedScope {
 public:
  UntapedScope();
  UntapedScope(const UntapedScope&) = delete;
  UntapedScope& operator=(const UntapedScope&) = delete;
  ~UntapedScope();
  // Whether a tape would have recorded.
  bool has_tapes() const noexcept { return has_tapes_; }

 private:
  void lift(bool with_tapes);
  std::vector<Context*> contexts_;  // innermost first
  bool has_tapes_ = false;
};

// Maps tangents of the inputs, one for each that is differentiable, to tangents of the results; an
// absent tangent is zero.
using Pushforward = std::function<std::vector<Tensor>(std::span<const Tensor> tangents)>;
// A call that is differentiated by a rule instead of by its ops, as one context sees it.
struct RuleCall {
  std::vector<Tensor> inputs, results;
  Pullback pullback;
  std::string_view name;
  // Whether forward mode uses the rule as well, instead of the ops that computed the results.
  bool is_for_forward = true;
  CallSite where = {};  // of the rule, for errors
  // Whether a missing cotangent may lead to other gradients than a cotangent of zeros.
  bool warns_of_missing = true;
  // The forward rule, which need not outlive the call of attach_rule(). Empty: forward mode runs
  // the transpose of the pullback.
  Pushforward push = {};
};
// Checks the gradients that a pullback returned for inputs of these types; null for an absent
// input.
// throws: kInvalidArgument for another number, and for a gradient of another shape or dtype.
void require_gradients(std::span<const Tensor> found, std::span<const Type* const> inputs);
void require_gradients(std::span<const Tensor> found, std::span<const Tensor> inputs);
// The same for the tangents that a forward rule returned for results.
// throws: kInvalidArgument, naming the rule and its line.
void require_tangents(const RuleCall& call, std::span<const Tensor> found);
// Runs the forward rule in the innermost context. An absent tangent of an input counts as zeros.
// throws: as require_tangents().
std::vector<Tensor> push_by_rule(const RuleCall& call, std::span<const Tensor> tangents);
// The pullback of a rule that has only a forward rule: its transpose, which runs `push` once.
// `push` is kept. throws (when called): kInvalidArgument for a rule that is not linear in tangents.
Pullback transposed(Pushforward push, std::span<const Tensor> inputs, std::string_view name,
                    CallSite where);
// Whether a tape or a forward mode of this thread follows an input.
bool is_followed(const RuleCall& call);
// Whether a tape or a forward mode is on the stack of this thread.
bool takes_derivatives() noexcept;
// Warns, once per line of a rule, of a captured tensor that a tape or a forward mode of this thread
// differentiates: the rule has no derivative by it. `captured`: the tensors that the rule made at
// `where` uses besides its inputs. `known`: those among them that the rule has derivatives by, such
// as the values of Variables.
void warn_of_captures(std::span<const Tensor> captured, std::span<const Tensor> known,
                      CallSite where);
// Returns the results under new ids that derivatives know only by the rule. Tapes record the
// pullback, forward mode runs its transpose, and a vmap around the results batches it.
//
// throws: kInvalidArgument in forward mode for a pullback that is not linear in its cotangents.
std::vector<Tensor> attach_rule(const RuleCall& call);
// Returns the tangents of the results from the tangents of the inputs. The pullback is linear in
// its cotangents, and its transpose carries tangents forward (as in derive.cc). Runs in the
// innermost context.
// throws: kInvalidArgument for a pullback that is not linear.
std::vector<Tensor> push_forward(const RuleCall& call, std::span<const Tensor> tangents);
// Runs a pullback on batches of cotangents, as a pullback of the examples of `batch`, which is on
// the stack. Returns a batch for an input that is an example, and the sum over all examples for any
// other input.
std::vector<Tensor> pull_in(BatchContext& batch, const Pullback& pull,
                            std::span<const Tensor> cotangents,
                            const std::vector<bool>& is_example);
// Runs a forward rule on tangents of batches, as a forward rule of the examples of `batch`, which
// is on the stack. The tangent of an input that is an example is a batch, and so are all results.
std::vector<Tensor> push_in(BatchContext& batch, const Pushforward& push,
                            std::span<const Tensor> tangents, const std::vector<bool>& is_example);
// Returns xs for a pullback that recomputes values from them. While calls are recorded, in a trace
// or lazily, the returned values depend on the cotangents, so that no pass keeps the first
// computation for the second.
std::vector<Tensor> held_back(std::span<const Tensor> xs, std::span<const Tensor> cotangents);

}  // namespace internal
}  // namespace etude
