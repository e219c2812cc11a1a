// SPDX-License-Identifier: Apache-2.0
// Optimisers as Python objects: the options of a kind, and the state as tensors of Python. So an
// optimiser is a structure: a staged function takes it as an argument, and copies are independent.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/kinds/kinds.h"
#include "etude/optim/internal/optimizer.h"
#include "python/src/bind.h"
#include "python/src/program/shared_leaves.h"
#include "python/src/program/tree.h"

namespace etude::python {

struct OptimizerObject {
  kinds::Made made;
  // Options and transforms. It has the state only while a FilledOptimizer is alive.
  std::unique_ptr<optim::internal::RuleOptimizer> rule;
  // The state, in the order of the tensors of the rule's slots; None for an absent one.
  std::vector<nb::object> leaves = {};
  std::vector<std::string> names = {};  // of the leaves: "updates", "mean/layers/0/weight"
  // Equal for optimisers with equal options and equal names; 0: to be computed.
  uint64_t key = 0;
  uint64_t number = 0;  // of this optimiser and its copies
  // The calls of add() and group(), for copies: ("add", transform), ("group", pattern, lr,
  // weight_decay).
  nb::tuple extras = {};
  int fills = 0;
  std::thread::id user = {};
};

// A new object: its state is taken from the rule.
OptimizerObject optimizer_object(kinds::Made made,
                                 std::unique_ptr<optim::internal::RuleOptimizer> rule);

// While alive, the rule of an optimiser has its state. Nests. Requires the GIL for both ends.
// throws: kFailedPrecondition while another thread uses the optimiser.
class FilledOptimizer {
 public:
  explicit FilledOptimizer(nb::handle optimizer);
  FilledOptimizer(const FilledOptimizer&) = delete;
  FilledOptimizer& operator=(const FilledOptimizer&) = delete;
  ~FilledOptimizer();
  // Announces a state that may have other names afterwards.
  void set_changed() const { object_.key = 0; }
  optim::internal::RuleOptimizer& operator*() const { return *object_.rule; }
  optim::internal::RuleOptimizer* operator->() const { return object_.rule.get(); }

 private:
  nb::object held_;
  OptimizerObject& object_;
};

// The state of the optimiser of a training run, as a value: runs copy and stage it. The rule is
// borrowed, and has no state outside of its calls.
class RunOptimizer {
 public:
  RunOptimizer(optim::internal::RuleOptimizer& rule, uint64_t key);

  template <class Model, class Gradients>
  void update(Model& model, const Gradients& gradients, CallSite where) {
    if constexpr (std::is_same_v<Gradients, Parts>) require_living_states(gradients);
    lend([&] { rule_->update(model, gradients, where); });
  }
  Tensor loss_scale() const;
  int64_t waiting() const;
  // Runs f() while the rule has the state.
  template <class F>
  void lend(F&& f) {
    const Lent lent(*this);
    f();
  }
  // Ends the run: the rule has the state.
  void give_back() noexcept { exchange(); }
  auto host_values() const { return std::tie(key_); }

 private:
  // Exchanges the states of the rule and the value, and exchanges them again at the end.
  class Lent {
   public:
    explicit Lent(RunOptimizer& of) : of_(of) { of_.exchange(); }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    ~Lent() { of_.exchange(); }

   private:
    RunOptimizer& of_;
  };
  void exchange() noexcept;

  optim::internal::RuleOptimizer* rule_;
  uint64_t key_;
  optim::internal::Slots slots_;
  ETUDE_FIELDS(RunOptimizer, slots_);
};

}  // namespace etude::python
