// SPDX-License-Identifier: Apache-2.0
// Describes the steps of a plan and the locations of their values, so that a plan can run elsewhere
// (etude/aot). Pointers are valid as long as the plan.
#pragma once

#include <cstdint>
#include <vector>

#include "etude/core/op/rules.h"
#include "etude/graph/graph.h"

namespace etude::internal {

struct PlanLayout {
  // kMade: a tensor that each run makes, number `index` of `made`.
  enum class Home : uint8_t { kNone, kInput, kConstant, kArena, kMade };
  struct Place {
    Home home = Home::kNone;
    uint32_t index = 0;
    int64_t offset = 0;  // bytes
  };
  struct Step {
    KernelFn run = nullptr;
    const void* params = nullptr;
    std::vector<Place> results, operands;
    std::size_t node = 0;  // of `graph`
  };
  struct Output {
    const Type* type = nullptr;  // null: absent
    Place place;
    bool is_whole = false;  // the made tensor is the output
  };

  const Graph* graph = nullptr;  // after the passes
  std::vector<Step> steps;       // in program order, even if the plan has forks
  std::vector<const Type*> made;
  std::vector<Output> outputs;
  int64_t arena_bytes = 0;
};

}  // namespace etude::internal
