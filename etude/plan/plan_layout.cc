// SPDX-License-Identifier: Apache-2.0
#include "etude/plan/plan_layout.h"

#include "etude/plan/plan.h"

namespace etude::internal {

PlanLayout Plan::layout() const {
  using Shown = PlanLayout::Home;
  const auto shown_place = [](const Place& place) {
    const auto home = [&] {
      switch (place.home) {
        case Home::kInput:
          return Shown::kInput;
        case Home::kConstant:
          return Shown::kConstant;
        case Home::kArena:
          return Shown::kArena;
        case Home::kOutput:
          return Shown::kMade;
        case Home::kNone:
          break;
      }
      return Shown::kNone;
    };
    return PlanLayout::Place{home(), place.index, place.offset};
  };
  PlanLayout out;
  out.graph = graph_;
  out.made = made_;
  out.arena_bytes = arena_bytes_;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[program_order_.empty() ? i : program_order_[i]];
    PlanLayout::Step& to = out.steps.emplace_back();
    to.run = step.run;
    to.params = step.state.params;
    to.node = step.node;
    const Place* const first = places_.data() + step.first_place;
    for (uint32_t i = 0; i < step.results + step.operands; ++i) {
      (i < step.results ? to.results : to.operands).push_back(shown_place(first[i]));
    }
  }
  for (const Output& output : outputs_) {
    out.outputs.push_back({output.type, shown_place(output.place), output.is_whole});
  }
  return out;
}

}  // namespace etude::internal
