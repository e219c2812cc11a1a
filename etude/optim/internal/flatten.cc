// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/internal/flatten.h"

namespace etude::internal {

ETUDE_INTERNAL_FLATTEN(, optim::Adam);
ETUDE_INTERNAL_FLATTEN(, optim::AdamW);
ETUDE_INTERNAL_FLATTEN(, optim::SGD);

}  // namespace etude::internal
