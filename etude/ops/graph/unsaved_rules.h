// SPDX-License-Identifier: Apache-2.0
// The beginning of the attribute `fault` of a custom_call whose rules were not saved with its
// function (etude/saved). A derivative of such a call is kUnimplemented.
#pragma once

#include <string_view>

namespace etude::ops {

inline constexpr std::string_view kRulesNotSaved = "its derivative was not saved";

}  // namespace etude::ops
