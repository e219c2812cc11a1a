// SPDX-License-Identifier: Apache-2.0
// The captures of a function: tensors from outside that its calls read. recompute_grad and
// custom_gradient treat them as inputs; a rule that has no derivative by a capture warns of it.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "etude/core/context/context.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// While alive, or until leave(), is the innermost context: passes calls on and records the operands
// that existed before it.
// threads: confined to the thread that made it.
class CaptureList final : public Context {
 public:
  // kDifferentiated leaves out operands of calls that end derivatives, such as stop_gradient, and
  // tensors that no context has known.
  enum class Noted { kAll, kDifferentiated };
  // Unless `is_needed`, records nothing and costs calls nothing.
  explicit CaptureList(bool is_needed, Noted noted = Noted::kAll);
  ~CaptureList() override { leave(); }
  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override;
  void leave() noexcept;
  // Records x if it existed before and a derivative by it may be taken.
  void note(const Tensor& x);
  // Excludes xs from now on, such as the arguments of the function.
  void leave_out(std::span<const Tensor> xs);
  // Each once, in the order of their first use.
  const std::vector<Tensor>& found() const noexcept { return found_; }

 private:
  uint64_t first_inside_;  // values with this id or a higher one were made inside
  std::unordered_set<uint64_t> seen_;
  std::vector<Tensor> found_;
  bool is_live_;
  Noted noted_;
};

}  // namespace internal
}  // namespace etude
