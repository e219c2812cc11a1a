// SPDX-License-Identifier: Apache-2.0
// Kinds as text, for `etude kinds` and for the reference pages.
#pragma once

#include <string>
#include <vector>

#include "etude/kinds/kinds.h"

namespace etude::tools {

// "momentum: float = 0.0, in [0, 1): of the running statistics", one line per parameter.
std::vector<std::string> parameter_lines(const kinds::Kind& kind);
// A section of a page, with a table of the parameters.
std::string kind_section(const kinds::Kind& kind);
// All kinds as a JSON list of objects: name, group, doc, and the parameters with their types,
// defaults (as text), ranges and docs.
std::string kinds_as_json();

}  // namespace etude::tools
