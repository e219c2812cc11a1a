// SPDX-License-Identifier: Apache-2.0
// Flattening of the usual optimisers as arguments of staged functions, compiled into the library so
// that programs need not compile it. Other optimisers work as well; the program then compiles their
// flattening.
#pragma once

#include "etude/optim/adam.h"
#include "etude/optim/sgd.h"
#include "etude/stage/internal/arguments.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

ETUDE_INTERNAL_FLATTEN(extern, optim::Adam);
ETUDE_INTERNAL_FLATTEN(extern, optim::AdamW);
ETUDE_INTERNAL_FLATTEN(extern, optim::SGD);

}  // namespace internal
}  // namespace etude
