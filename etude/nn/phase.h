// SPDX-License-Identifier: Apache-2.0
// How layers that work otherwise in training ask for the phase: Dropout, BatchNorm and their like.
#pragma once

#include <string_view>

#include "etude/base/call_site.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn::detail {

// Whether the layer `name` works as in training. In a loop by hand that sets no phase it does not:
// the first such layer of the process that a tape of this thread records is told of in a warning.
// Who has set a phase is told nothing, whatever it is.
//
// threads: safe. cost: one look at ambient() in training; else the contexts of this thread too.
bool is_trained(std::string_view name, CallSite where);

}  // namespace nn::detail
}  // namespace etude
