// SPDX-License-Identifier: Apache-2.0
// The phase, for layers that behave differently in training: Dropout, BatchNorm and others.
#pragma once

#include <string_view>

#include "etude/base/call_site.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn::internal {

// Whether the layer `name` behaves as in training. Without a phase, as in a hand-written loop, it
// does not; a warning is then printed for the first such layer of the process that a tape of this
// thread records. There is no warning if a phase is set.
//
// threads: thread-safe. cost: one read of ambient() in training; else also of the contexts of this
// thread.
bool is_trained(std::string_view name, CallSite where);

}  // namespace nn::internal
}  // namespace etude
