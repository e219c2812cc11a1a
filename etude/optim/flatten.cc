// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/flatten.h"

namespace etude::internal {

ETUDE_INTERNAL_WALKS(, optim::Adam);
ETUDE_INTERNAL_WALKS(, optim::AdamW);
ETUDE_INTERNAL_WALKS(, optim::SGD);

}  // namespace etude::internal
