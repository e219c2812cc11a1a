// SPDX-License-Identifier: Apache-2.0
#include "etude/version.h"

#define ETUDE_STRING_(x) #x
#define ETUDE_STRING(x) ETUDE_STRING_(x)

namespace etude {

const char* version() {
  return ETUDE_STRING(ETUDE_VERSION_MAJOR) "." ETUDE_STRING(ETUDE_VERSION_MINOR) "." ETUDE_STRING(
      ETUDE_VERSION_PATCH);
}

}  // namespace etude
