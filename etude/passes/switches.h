// SPDX-License-Identifier: Apache-2.0
// The passes and rules that are switched off, on this thread by PassScope (pipeline.h) or in the
// whole program by ETUDE_PASSES_OFF.
#pragma once

#include <string_view>

namespace etude::internal {

// `name` is a pass or a rule.
bool is_switched_off(std::string_view name);
// Whether a PassScope of this thread switches off a pass or rule.
bool has_switches_here();
// throws: kInvalidArgument if ETUDE_PASSES_OFF contains an unknown name, or a pass that cannot be
//         switched off.
void check_environment();

}  // namespace etude::internal
