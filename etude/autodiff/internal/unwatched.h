// SPDX-License-Identifier: Apache-2.0
// The finding that a GradientTape watched none of the sources of a gradient. Used by GradientTape
// and by the tape of the Python package, which knows the names of the sources. Not for users.
#pragma once

#include <string_view>

#include "etude/base/call_site.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Reports it at Diagnostics::independent_result, once per call site: the gradients are absent, or
// zeros inside of structs, which is easily taken for a result. `op`: "gradient". `sources`:
// "float32[2,3], float32[3]".
// throws: kInvalidArgument if the severity is kError.
[[gnu::cold]] void report_unwatched(std::string_view op, std::string_view sources, CallSite where);

}  // namespace internal
}  // namespace etude
