// SPDX-License-Identifier: Apache-2.0
// A plan as a page: its steps as boxes, fused calls and clusters as boxes around their parts, bytes
// on the edges. One file, which needs nothing else. Used by `etude graph plan FILE --html OUT`.
#pragma once

#include <string>

#include "etude/plan/plan.h"

namespace etude::tools {

std::string plan_html(const internal::Plan& plan);

}  // namespace etude::tools
