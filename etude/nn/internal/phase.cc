// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/internal/phase.h"

#include <fmt/format.h>

#include "etude/autodiff/tape/tape.h"
#include "etude/base/warning.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/ambient.h"
#include "etude/core/context/context.h"
#include "etude/core/internal/mode.h"

namespace etude::nn::internal {
namespace {

bool is_recorded() {
  if ((etude::internal::mode_word & etude::internal::kModeContexts) == 0) return false;
  for (const Context* c = &ContextStack::top(); c != nullptr; c = c->parent()) {
    if (dynamic_cast<const TapeContext*>(c) != nullptr) return true;
  }
  return false;
}

[[gnu::cold, gnu::noinline]] void warn_unset_phase(std::string_view name, CallSite where) {
  const CallSite line = etude::internal::user_line(where);
  etude::internal::warn_once(
      "unset phase",
      fmt::format(
          "{}: a gradient is taken, but no phase was set: dropout and noise are off, and "
          "normalisation takes its running statistics and does not move them. Write `const "
          "PhaseScope training(Phase::kTraining);` in front of the step, or PhaseScope with "
          "Phase::kInference if this is meant{}",
          name, line.known() ? fmt::format("\n  at {}:{}", line.file, line.line) : ""));
}

}  // namespace

bool is_trained(std::string_view name, CallSite where) {
  if (is_training()) return true;
  if (!ambient().is_phase_set && is_recorded()) warn_unset_phase(name, where);
  return false;
}

}  // namespace etude::nn::internal
