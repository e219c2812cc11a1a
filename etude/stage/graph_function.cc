// SPDX-License-Identifier: Apache-2.0
#include <ostream>
#include <string>

#include "etude/graph/symbolic_graph.h"
#include "etude/graph/text/print.h"
#include "etude/stage/function.h"

namespace etude {

std::string GraphFunction::to_string() const {
  const std::string text = to_text(graph(), {.elide_constants = true, .types = true});
  return trace_->symbolic ? trace_->symbolic->to_string() + text : text;
}

std::ostream& operator<<(std::ostream& out, const GraphFunction& function) {
  return out << function.to_string();
}

}  // namespace etude
