// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <ostream>
#include <string>

#include "etude/graph/symbolic_graph.h"
#include "etude/graph/text/print.h"
#include "etude/stage/function.h"

namespace etude {
namespace {

std::atomic<bool> all_run_eagerly{false};

}  // namespace

void run_functions_eagerly(bool eagerly) noexcept { all_run_eagerly = eagerly; }
bool functions_run_eagerly() noexcept { return all_run_eagerly.load(std::memory_order_relaxed); }

std::string GraphFunction::to_string() const {
  const std::string text = to_text(graph(), {.elide_constants = true, .types = true});
  return trace_->symbolic ? trace_->symbolic->to_string() + text : text;
}

std::ostream& operator<<(std::ostream& out, const GraphFunction& function) {
  return out << function.to_string();
}

}  // namespace etude
