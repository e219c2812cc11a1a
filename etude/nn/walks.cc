// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/walks.h"

namespace etude::internal {

ETUDE_INTERNAL_WALKS(, nn::AvgPool2D);
ETUDE_INTERNAL_WALKS(, nn::BatchNorm);
ETUDE_INTERNAL_WALKS(, nn::Conv2D);
ETUDE_INTERNAL_WALKS(, nn::Dense);
ETUDE_INTERNAL_WALKS(, nn::Dropout);
ETUDE_INTERNAL_WALKS(, nn::MaxPool2D);

}  // namespace etude::internal
