// SPDX-License-Identifier: Apache-2.0
#include "etude/ops/families.h"

namespace etude {

void register_all_ops(Registry& registry) {
#define ETUDE_OP_FAMILY(name) ops::define_##name(registry);
#include "etude/ops/families.inc"
#undef ETUDE_OP_FAMILY
}

}  // namespace etude
