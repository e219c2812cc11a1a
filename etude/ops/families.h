// SPDX-License-Identifier: Apache-2.0
// One function per file of records. Only etude/startup.cc calls them, in this order.
#pragma once

#include "etude/core/op/registry.h"

namespace etude::ops {

#define ETUDE_OP_FAMILY(name) void define_##name(Registry& registry);
#include "etude/ops/families.inc"
#undef ETUDE_OP_FAMILY

}  // namespace etude::ops
