// SPDX-License-Identifier: Apache-2.0
// What a function captures: the tensors from outside that its calls read. Used by recompute_grad
// and custom_gradient, for which captured tensors are inputs as arguments are, and by the warning
// of rules that give no derivative by what they capture.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "etude/core/context.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// While alive, or until leave(), lies on top of the stack, passes calls on and notes their operands
// that were there before. confined to the thread that made it.
class CaptureList final : public Context {
 public:
  // Of a kDifferentiated list, operands of calls that end derivatives, such as stop_gradient, do
  // not count, nor do tensors that no context has known.
  enum class Noted { kAll, kDifferentiated };
  // Notes nothing, and costs calls nothing, unless `is_needed`.
  explicit CaptureList(bool is_needed, Noted noted = Noted::kAll);
  ~CaptureList() override { leave(); }
  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override;
  void leave() noexcept;
  // Notes x if it was there before, and may have a derivative that somebody asks for.
  void note(const Tensor& x);
  // From now on does not note xs, such as the arguments of the function.
  void leave_out(std::span<const Tensor> xs);
  // Each once, in the order of their first use.
  const std::vector<Tensor>& found() const noexcept { return found_; }

 private:
  uint64_t first_inside_;  // values known by this id, and by higher ones, were made inside
  std::unordered_set<uint64_t> seen_;
  std::vector<Tensor> found_;
  bool is_live_;
  Noted noted_;
};

}  // namespace internal
}  // namespace etude
