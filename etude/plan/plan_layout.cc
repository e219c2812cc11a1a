// SPDX-License-Identifier: Apache-2.0
#include "etude/plan/plan_layout.h"

#include "etude/plan/plan.h"

namespace etude::internal {

PlanLayout Plan::layout() const {
  using Told = PlanLayout::Home;
  const auto told = [](const Place& place) {
    const auto home = [&] {
      switch (place.home) {
        case Home::kInput:
          return Told::kInput;
        case Home::kConstant:
          return Told::kConstant;
        case Home::kArena:
          return Told::kArena;
        case Home::kOutput:
          return Told::kMade;
        case Home::kNone:
          break;
      }
      return Told::kNone;
    };
    return PlanLayout::Place{home(), place.index, place.offset};
  };
  PlanLayout out;
  out.graph = graph_;
  out.made = made_;
  out.arena_bytes = arena_bytes_;
  for (const Step& step : steps_) {
    PlanLayout::Step& to = out.steps.emplace_back();
    to.run = step.run;
    to.params = step.state.params;
    to.node = step.node;
    const Place* const first = places_.data() + step.first_place;
    for (uint32_t i = 0; i < step.results + step.operands; ++i) {
      (i < step.results ? to.results : to.operands).push_back(told(first[i]));
    }
  }
  for (const Output& output : outputs_) {
    out.outputs.push_back({output.type, told(output.place), output.is_whole});
  }
  return out;
}

}  // namespace etude::internal
