// SPDX-License-Identifier: Apache-2.0
// Which passes and rules are switched off on this thread (PassScope in pipeline.h) or in the
// program (ETUDE_PASSES_OFF).
#pragma once

#include <string_view>

namespace etude::internal {

// `name` is that of a pass or of a rule.
bool is_switched_off(std::string_view name);
// Whether a PassScope of this thread switches something off.
bool has_switches_here();
// throws: kInvalidArgument if ETUDE_PASSES_OFF holds a name that is none.
void check_environment();

}  // namespace etude::internal
