// SPDX-License-Identifier: Apache-2.0
// The arguments of a staged function after a call, in the order of their leaves before it, and the
// state of layers in them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "etude/autodiff/internal/state_box.h"
#include "etude/core/tensor.h"
#include "python/src/program/staged.h"
#include "python/src/program/tree.h"

namespace etude::python {

struct AfterCall {
  const std::vector<nb::object>& passed;  // the leaves before the call
  std::vector<nb::object> leaves = {};
  // Optimisers whose state has another structure, and the tensors of their states.
  std::vector<ResultForm::Grown> grown = {};
  std::vector<nb::object> grown_leaves = {};

  // Adds the leaves of a part, from now[next] on. False if its structure has changed. An
  // optimiser may change: its leaves then count as unchanged here, and its new ones are in `grown`.
  bool add(const TreeDef& before, const TreeDef& after, std::span<const nb::object> now,
           std::size_t& next);

 private:
  void add_optimizer(const TreeDef& before, const TreeDef& after, std::span<const nb::object> now);
};

// The state of layers in the arguments of one trace. Layers announce a new state while the function
// is traced. The graph returns it, and each call passes it on to the operator that collects states
// around the call, as a call of the plain function does.
class TracedStates {
 public:
  TracedStates() = default;
  TracedStates(const TracedStates&) = delete;
  TracedStates& operator=(const TracedStates&) = delete;
  ~TracedStates();

  // A state with this value for the trace. Its changes stay here. `leaf`: its number in the def.
  nb::object add(std::size_t leaf, bool is_donated, Tensor value);
  // Ends the trace: adds new states to the outputs. Warns of changes of donated states that no
  // operator took. `paths`: of the leaves.
  void take(const std::vector<std::string>& paths, std::vector<Tensor>& outputs,
            std::vector<ResultForm::NewState>& to);

 private:
  using Box = internal::StateBox<Tensor>;
  struct Entry {
    std::size_t leaf;
    bool is_donated;
    std::shared_ptr<Box> direct;    // gets the changes of layers that are called in the function
    std::shared_ptr<bool> is_lost;  // a branch or a loop in the function changes the state
    std::shared_ptr<Box> taken;     // gets changes which an operator in the function also takes
  };
  std::vector<Entry> all_;
};

// While training, sets the states of a call to the latest changes within the operator around it.
void read_states(const CallLayout& layout, CallReader& reader);
// Passes new states on to the operator around the call. Warns if there is none, and a layer that
// the function calls has announced a state.
// throws: kInvalidArgument, with both paths, for two new states of one layer; kFailedPrecondition
//         for a state in a branch or a loop, if there is an operator around the call.
void pass_on_states(const ResultForm& form, const CallLayout& layout, const CallReader& reader,
                    Values& out, std::size_t next);

}  // namespace etude::python
