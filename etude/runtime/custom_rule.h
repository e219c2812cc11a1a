// SPDX-License-Identifier: Apache-2.0
// A call of tensors that derivatives know by a rule that somebody wrote: what custom_gradient and
// recompute_grad (custom_gradient.h) do at each context of the stack.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/context.h"
#include "etude/core/tensor.h"
#include "etude/runtime/tape_options.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class BatchContext;

namespace internal {

// While alive, tapes of this thread do not record, but for those that follow a forward mode inside
// them, which needs it.
class UntapedScope {
 public:
  UntapedScope();
  UntapedScope(const UntapedScope&) = delete;
  UntapedScope& operator=(const UntapedScope&) = delete;
  ~UntapedScope();
  // Whether one would have recorded.
  bool has_tapes() const noexcept { return has_tapes_; }

 private:
  void lift(bool with_tapes);
  std::vector<Context*> contexts_;  // innermost first
  bool has_tapes_ = false;
};

// A call by a rule instead of by its ops, as one context sees it.
struct RuleCall {
  std::vector<Tensor> inputs, results;
  Pullback pullback;
  std::string_view name;
  // Whether forward mode goes by the rule as well, not by the ops that gave the results.
  bool is_for_forward = true;
  CallSite where = {};  // of the rule, for errors
  // Whether a cotangent that is missing may give other gradients than zeros in its place.
  bool tells_missing = true;
};
// Checks what a pullback gave for inputs of these types, null for an absent one.
// throws: kInvalidArgument for another number, and for a gradient of another shape or dtype.
void require_gradients(std::span<const Tensor> found, std::span<const Type* const> inputs);
void require_gradients(std::span<const Tensor> found, std::span<const Tensor> inputs);
// Whether a tape or a forward mode of this thread follows an input.
bool is_followed(const RuleCall& call);
// Whether a tape or a forward mode is on the stack of this thread.
bool takes_derivatives() noexcept;
// Says, once for each line of a rule, that it uses a tensor of which a tape or a forward mode of
// this thread follows the derivative, and gives none by it. `captured`: what the rule made at
// `where` uses beside its inputs; `known`: those of them that it has derivatives by, such as what
// Variables hold.
void warn_of_captures(std::span<const Tensor> captured, std::span<const Tensor> known,
                      CallSite where);
// The results under new identities that derivatives know by the rule alone: tapes record the
// pullback, forward mode runs along its transpose, and a vmap around which they stand turns it into
// one of batches.
//
// throws: kInvalidArgument in forward mode for a pullback that is not linear in its cotangents.
std::vector<Tensor> attach_rule(const RuleCall& call);
// The tangents of results from those of inputs: the pullback is linear in its cotangents, and its
// transpose carries tangents forward (as in derive.cc). Runs in the innermost context.
// throws: kInvalidArgument for a pullback that is not linear.
std::vector<Tensor> push_forward(const RuleCall& call, std::span<const Tensor> tangents);
// What a pullback of examples of `batch`, which is on the stack, gives for batches of cotangents:
// batches for inputs that are examples, for others the sum over all examples.
std::vector<Tensor> pull_in(BatchContext& batch, const Pullback& pull,
                            std::span<const Tensor> cotangents,
                            const std::vector<bool>& is_example);
// xs for a pullback that computes again what was computed of them. Where calls are recorded, in a
// trace or lazily, these are values that are known after the cotangents, so that nothing is kept
// instead of being computed again.
std::vector<Tensor> held_back(std::span<const Tensor> xs, std::span<const Tensor> cotangents);

}  // namespace internal
}  // namespace etude
