// SPDX-License-Identifier: Apache-2.0
// Replays a function that reads and assigns Variables: the first run records their values, the
// second run sees the recorded values. For recompute_grad.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "etude/core/tensor.h"
#include "etude/variables/variable.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

class EnclosingTrace;

// The values of a Variable in a run of a function: values[i] after i assignments. values[0] is
// absent if it was not read before the first assignment.
struct VariableUse {
  Variable variable;
  std::vector<Tensor> values;
};

// Records the values of Variables at each read and assignment, until take() or its end. Skips
// graphs that are traced meanwhile: their calls read and assign.
// threads: confined to its thread.
class VariableHistory final : public VariableReader {
 public:
  VariableHistory();
  void variable_read(const Variable& variable, const Tensor& snapshot) override;
  void variable_assigned(const Variable& variable, const Tensor& value) override;
  std::vector<VariableUse> take();

 private:
  VariableUse& use_of(const Variable& variable);
  std::vector<VariableUse> uses_;
  const EnclosingTrace* trace_;  // the trace around it; null: none
};

// While alive, reads on this thread return the values of `uses`, which outlive it, and assignments
// of their Variables have no effect. Readers that began after it are notified of both. Skips graphs
// that are traced meanwhile, as VariableHistory does.
// threads: confined to its thread.
class VariableReplay {
 public:
  explicit VariableReplay(std::span<const VariableUse> uses);
  VariableReplay(const VariableReplay&) = delete;
  VariableReplay& operator=(const VariableReplay&) = delete;
  ~VariableReplay();
  // The recorded value of the Variable at this point of the run; null: it is not replayed.
  static const Tensor* find(const Variable& variable) noexcept;
  // The same after the next assignment.
  // throws: kFailedPrecondition if the first run did not assign it that often.
  static const Tensor* find_assigned(const Variable& variable);

 private:
  friend void notify_read(const Variable& variable, const Tensor& snapshot);
  friend void notify_assignment(const Variable& variable, const Tensor& value);
  struct State {
    const VariableUse* use;
    std::size_t assigned;
  };
  static State* find_state(const Variable& variable) noexcept;
  std::vector<State> states_;
  VariableReplay* outer_;
  const VariableReader* reader_before_;
  const EnclosingTrace* trace_;  // the trace around it; null: none
};

}  // namespace internal
}  // namespace etude
