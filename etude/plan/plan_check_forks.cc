// SPDX-License-Identifier: Apache-2.0
// The oracle of forks: looks at the places of all steps whether the memory of branches is apart. It
// shares nothing with the planner.
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "etude/base/check.h"
#include "etude/eager/dispatch.h"
#include "etude/passes/graph_copy.h"
#include "etude/plan/plan.h"

namespace etude::internal {

class Plan::ForkCheck {
 public:
  explicit ForkCheck(const Plan& plan)
      : plan_(plan), memory_(inputs() + plan.made_.size() + plan.arenas_.size()) {
    std::iota(memory_.begin(), memory_.end(), std::size_t{0});
    // An input and the tensor that it may become.
    for (const auto* list : {&plan.donations_, &plan.overs_}) {
      for (const Donation& d : *list) memory_[root(d.input)] = root(inputs() + d.made);
    }
  }

  void check() {
    std::size_t step = 0;
    for (const Section& section : plan_.sections_) {
      for (std::size_t b = 0; b + 1 < section.branches.size(); ++b) {
        ETUDE_CHECK(section.branches[b] < section.branches[b + 1], "a branch has no steps");
        for (std::size_t s = section.branches[b]; s < section.branches[b + 1]; ++s) {
          const Stretch& stretch = plan_.stretches_[s];
          for (std::size_t i = stretch.first; i < stretch.end; ++i) add_step(i, b);
        }
      }
      ETUDE_CHECK(plan_.stretches_[section.first].first == step, "a section is missing");
      step = plan_.stretches_[section.end - 1].end;
      check_fork();
    }
    ETUDE_CHECK(plan_.sections_.empty() || step == plan_.steps_.size(), "a section is missing");
  }

 private:
  struct Access {
    int64_t begin, end;
    std::size_t branch, step;
    bool writes;
  };

  std::size_t inputs() const { return plan_.graph_->inputs().size(); }
  std::size_t root(std::size_t at) const {
    while (memory_[at] != at) at = memory_[at];
    return at;
  }

  void add_step(std::size_t i, std::size_t branch) {
    const Step& step = plan_.steps_[i];
    const Graph::Node node = plan_.graph_->node(step.node);
    ETUDE_CHECK(!has_effects(node.op, node.attrs), "step {} ({}) of a fork has an effect", i,
                node.op.name());
    const RefPtr<Prepared> call = prepare(node.op, node.attrs, operand_types(*plan_.graph_, node));
    may_fail_ = may_fail_ || !call->never_faults;
    const Place* const places = &plan_.places_[step.first_place];
    for (uint32_t r = 0; r < step.results; ++r) {
      add(places[r], node.first_result + r, {0, 0, branch, i, true});
    }
    for (uint32_t o = 0; o < step.operands; ++o) {
      add(places[step.results + o], node.operands[o], {0, 0, branch, i, false});
    }
  }
  void add(const Place& place, GraphValue value, Access access) {
    std::size_t memory = 0;
    switch (place.home) {
      case Home::kNone:
      case Home::kConstant:
        return;  // never written
      case Home::kInput:
        memory = root(place.index);
        break;
      case Home::kOutput:
        memory = root(inputs() + place.index);
        break;
      case Home::kArena:
        memory = inputs() + plan_.made_.size() + place.index;
        break;
    }
    const Type* const type = plan_.graph_->type(value);
    if (type->bytes() == 0) return;
    access.begin = place.offset;
    access.end = place.offset + type->bytes();
    accesses_[memory].push_back(access);
    const bool is_given = std::ranges::any_of(
        plan_.donations_, [&](const Donation& d) { return d.made == place.index; });
    writes_given_ = writes_given_ || (access.writes && place.home == Home::kOutput && is_given);
  }

  void check_fork() {
    for (auto& [memory, list] : accesses_) check_memory(list);
    ETUDE_CHECK(!may_fail_ || !writes_given_,
                "a step of a fork can fail while another step overwrites an input");
    accesses_.clear();
    may_fail_ = writes_given_ = false;
  }
  // Visits accesses by their first byte. An access is open until its last byte.
  static void check_memory(std::vector<Access>& list) {
    std::ranges::sort(list, {}, &Access::begin);
    std::vector<Access> open;
    for (const Access& access : list) {
      std::erase_if(open, [&](const Access& o) { return o.end <= access.begin; });
      for (const Access& other : open) {
        ETUDE_CHECK(other.branch == access.branch || (!other.writes && !access.writes),
                    "steps {} and {} of a fork use the same memory and one writes there",
                    std::min(other.step, access.step), std::max(other.step, access.step));
      }
      open.push_back(access);
    }
  }

  const Plan& plan_;
  // Of inputs, new tensors and arenas: another that is the same.
  std::vector<std::size_t> memory_;
  std::map<std::size_t, std::vector<Access>> accesses_;  // of one fork, by memory
  bool may_fail_ = false, writes_given_ = false;
};

void Plan::verify_forks() const { ForkCheck(*this).check(); }

}  // namespace etude::internal
